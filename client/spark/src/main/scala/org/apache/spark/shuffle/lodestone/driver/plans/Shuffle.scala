// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.{NoPlan, PlanAnswer, Reason, RemoteOutput}
import org.apache.spark.shuffle.lodestone.plan.{RemotePart, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan

/**
 * One shuffle that uses services, as the driver knows it. Its state has the size of its services, and
 * one bit for each map. An generation is one run of all maps: what was pushed in an earlier one is not read.
 *
 * @param keepsOriginals
 *   executors keep the map outputs: what services have is best effort
 */
private[driver] final class Shuffle(
    val shuffleId: Int,
    val numMaps: Int,
    val numPartitions: Int,
    val keepsOriginals: Boolean,
    val replicas: Int) {
  import Shuffle._

  /** Spark's. There is none before the first map task asks. */
  private var shuffleMergeId = NoShuffleMergeId
  private var generation = 0
  private var versions = Vector.empty[Array[ServiceLocation]]
  private var planning: Planning = Open

  /** Blocks up to this size are pushed, if executors keep them. */
  private var maxBlockBytes: Long = Int.MaxValue
  private var distrusted: Option[Reason] = None
  private val avoided = mutable.HashSet.empty[ServiceLocation]

  /** Services that were asked to take the generation, also those that did not answer in time. */
  private val registrations = mutable.HashSet.empty[ServiceLocation]

  /** Services from which nothing of the generation is read any more. */
  private val released = mutable.HashSet.empty[ServiceLocation]
  private var isRemoved = false

  /** The pushes of this generation, if executors keep the map outputs. */
  var pushes = new PushesAwaited(numMaps)

  def id: ShuffleGeneration = ShuffleGeneration(shuffleId, generation)

  def removed: Boolean = isRemoved

  /** Whether tasks with this merge id of Spark's belong to the present run of the maps. */
  def isCurrent(ofTask: Int): Boolean = ofTask == shuffleMergeId

  def isOutdated(ofTask: Int): Boolean = ofTask < shuffleMergeId

  /** Every service that is in a version of the plan. */
  def services: Set[ServiceLocation] = versions.iterator.flatMap(_.iterator).toSet

  /** Every service that may know of this generation. */
  def registeredAt: Set[ServiceLocation] = registrations.toSet

  def mayKnow(services: Seq[ServiceLocation]): Unit = registrations ++= services

  /** Whether there is a plan of this generation. */
  def isPlanned: Boolean = versions.nonEmpty

  /** All versions of this generation, if there is one. */
  def plan: Option[ShufflePlan] =
    if (!isPlanned) None
    else {
      val code = distrusted.map(_.code)
      Some(ShufflePlan(generation, numPartitions, replicas, versions.toArray, maxBlockBytes, code))
    }

  /** The answer for a map task. None: a version has to be made. */
  def answer: Option[PlanAnswer] = planning match {
    case Left(why) => Some(NoPlan(why))
    case Open | LeftForNow(_) | Making(_) =>
      plan.filterNot(_.versions.last.exists(avoided.contains))
  }

  /** Why the shuffle has no plan, as far as that is decided, for good or for now. */
  def leftFor: Option[Reason] = planning match {
    case Left(why) => Some(why)
    case LeftForNow(why) => Some(why)
    case Open | Making(_) => None
  }

  def isLeft: Boolean = planning match {
    case Left(_) => true
    case Open | LeftForNow(_) | Making(_) => false
  }

  def isUsable(service: ServiceLocation): Boolean = !avoided.contains(service)

  def mayMove: Boolean = versions.size < MaxVersions

  /** Notes Spark's merge id of a map task. True if an generation begins with it. */
  def isBegunBy(ofTask: Int): Boolean = {
    val begins = ofTask > shuffleMergeId && (keepsOriginals || shuffleMergeId != NoShuffleMergeId)
    shuffleMergeId = math.max(shuffleMergeId, ofTask)
    begins
  }

  /** Services that may have segments of the partition. */
  def servicesOf(reduceId: Int): Seq[ServiceLocation] =
    plan.toSeq.flatMap(_.servicesOf(reduceId)).filterNot(released.contains)

  def avoid(service: ServiceLocation): Unit = avoided += service

  /** Whether these outputs, of all maps, are whole at the services that stay. */
  def isWholeAt(stays: ServiceLocation => Boolean, outputs: Iterable[RemoteOutput]): Boolean =
    plan.exists { plan =>
      def isThere(part: RemotePart): Boolean = plan.versions(part.version).indices.forall {
        group =>
          val services = part.servicesOf(plan, group)
          services.isEmpty || services.exists(stays)
      }
      outputs.forall(output => output.generation == generation && output.parts.forall(isThere))
    }

  /** The service may remove the shuffle: nothing of it is read there any more. */
  def release(service: ServiceLocation): Unit = released += service

  def uses(service: ServiceLocation): Boolean =
    services.contains(service) && !released.contains(service)

  /**
   * Waits for the next version. If nobody makes it yet, the result is the answer that is to be made: see
   * [[isMaking]].
   */
  def await(reply: SharedReply.Reply): Option[SharedReply] = planning match {
    case Making(waiting) =>
      waiting.ask(reply)
      None
    case Open | LeftForNow(_) | Left(_) =>
      val waiting = new SharedReply
      waiting.ask(reply)
      planning = Making(waiting)
      Some(waiting)
  }

  /** False if the answer was given meanwhile: readers did not wait for it, or the shuffle is removed. */
  def isMaking(awaited: SharedReply): Boolean = planning match {
    case Making(waiting) => waiting eq awaited
    case Open | LeftForNow(_) | Left(_) => false
  }

  /** Map outputs that are known so far are no reason to merge. */
  def leaveForNow(why: Reason): Unit = planning = LeftForNow(why)

  def limitBlocks(bytes: Long): Unit = maxBlockBytes = bytes

  /** Adds a version. All of its services are usable: otherwise it would answer nobody. */
  def assign(services: Seq[ServiceLocation]): Unit = {
    versions :+= services.toArray
    decide(Open)
  }

  /** Map tasks of this generation push nothing from now on. */
  def leave(reason: Reason): Unit = decide(Left(reason))

  /** Readers of this generation take originals from now on. False: it was so before. */
  def distrust(why: Reason): Boolean = {
    val isNew = distrusted.isEmpty
    if (isNew) distrusted = Some(why)
    isNew
  }

  /** What was pushed before is not read any more. Map tasks that wait get a plan of the new generation. */
  def beginGeneration(): Unit = {
    generation = if (keepsOriginals) shuffleMergeId else generation + 1
    versions = Vector.empty
    distrusted = None
    registrations.clear()
    released.clear()
    pushes = new PushesAwaited(numMaps)
    planning match {
      case Making(_) =>
      case Open | LeftForNow(_) | Left(_) => planning = Open
    }
  }

  def remove(): Unit = {
    isRemoved = true
    decide(Left(Reason.UnknownShuffle))
  }

  /** Whether map tasks wait for a plan. */
  def isPlanning: Boolean = planning match {
    case Making(_) => true
    case Open | LeftForNow(_) | Left(_) => false
  }

  private def decide(next: Planning): Unit = {
    val before = planning
    planning = next
    before match {
      case Making(waiting) => answer.foreach(waiting.give)
      case Open | LeftForNow(_) | Left(_) =>
    }
  }
}

private[driver] object Shuffle {
  private val NoShuffleMergeId = -1

  /** A shuffle that moves more often is in a cluster that is not stable. */
  private val MaxVersions = 32

  /** The state of the next answer to map tasks. */
  private sealed trait Planning

  /** The newest version is the answer. A map task that does not find a usable one has it made. */
  private case object Open extends Planning
  private final case class LeftForNow(why: Reason) extends Planning
  private final case class Making(waiting: SharedReply) extends Planning
  private final case class Left(why: Reason) extends Planning
}
