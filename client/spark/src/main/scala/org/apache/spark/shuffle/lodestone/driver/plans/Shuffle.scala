// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan._

/**
 * One shuffle that uses services. Its state has the size of its services, plus one bit for each
 * map. Readers never read pushes of an old generation.
 *
 * @param keepsOriginals
 *   true if executors keep the map outputs, so that services are best effort
 * @param isRepeatable
 *   false if maps that run again may write other records
 */
private[driver] final class Shuffle(
    val shuffleId: Int,
    val numMaps: Int,
    val numPartitions: Int,
    val keepsOriginals: Boolean,
    val replicas: Int,
    val format: BlockFormat = BlockFormat.SparkStream,
    val hasNearReads: Boolean = false,
    val isRepeatable: Boolean = true) {
  import Shuffle._

  /** Spark's number. It is unknown before the first map task asks. */
  private var shuffleMergeId = NoShuffleMergeId
  private var generation = 0
  private var versions = Vector.empty[Array[ServiceLocation]]
  private var planning: Planning = Open

  /** The same for all versions of a generation. */
  private var hasLongStripes = false

  /** Blocks up to this size are pushed, if executors keep them. */
  private var maxBlockBytes: Long = Int.MaxValue
  private var distrusted: Option[Distrust] = None
  private val avoided = mutable.HashSet.empty[ServiceLocation]

  /**
   * Services that were asked to register the generation, also those that did not answer in time.
   */
  private val registrations = mutable.HashSet.empty[ServiceLocation]

  /** Services from which readers read this generation no longer. */
  private val released = mutable.HashSet.empty[ServiceLocation]
  private var isRemoved = false
  var pushes = new PushesAwaited(numMaps)

  def id: ShuffleGeneration = ShuffleGeneration(shuffleId, generation)

  def removed: Boolean = isRemoved

  /** True if tasks with this `shuffleMergeId` belong to the present generation. */
  def isCurrent(ofTask: Int): Boolean = ofTask == shuffleMergeId

  def isOutdated(ofTask: Int): Boolean = ofTask < shuffleMergeId
  def services: Set[ServiceLocation] = versions.iterator.flatMap(_.iterator).toSet
  def registeredAt: Set[ServiceLocation] = registrations.toSet
  def mayKnow(services: Seq[ServiceLocation]): Unit = registrations ++= services

  def isPlanned: Boolean = versions.nonEmpty
  def plan: Option[ShufflePlan] =
    if (!isPlanned) None
    else {
      val all = versions.toArray
      Some(
        ShufflePlan(
          generation,
          numPartitions,
          replicas,
          all,
          maxBlockBytes,
          distrusted,
          hasLongStripes))
    }

  /** The plan by which readers read, as far as it is known. */
  def readPlan: Option[ShufflePlan] = plan.filterNot(_ => keepsOriginals && isLeft)

  /** The answer for a map task. None if a version must be made first. */
  def pushPlan: Option[PlanAnswer] = planning match {
    case Left(reason) => Some(NoPlan(reason))
    case Open | LeftForNow(_) | Making(_) =>
      plan.filterNot(_.versions.last.exists(avoided.contains))
  }

  /** The reason why the shuffle has no plan, for good or for now. */
  def leftFor: Option[Reason] = planning match {
    case Left(reason) => Some(reason)
    case LeftForNow(reason) => Some(reason)
    case Open | Making(_) => None
  }

  def isLeft: Boolean = planning.isInstanceOf[Left]

  def isUsable(service: ServiceLocation): Boolean = !avoided.contains(service)

  def mayMove: Boolean = versions.size < MaxVersions

  /** Records Spark's number of a map task. Returns true if a generation begins with it. */
  def isBegunBy(ofTask: Int): Boolean = {
    val begins = ofTask > shuffleMergeId && (keepsOriginals || shuffleMergeId != NoShuffleMergeId)
    shuffleMergeId = math.max(shuffleMergeId, ofTask)
    begins
  }

  def servicesOf(reduceId: Int): Seq[ServiceLocation] =
    plan.toSeq.flatMap(_.servicesOf(reduceId)).filterNot(released.contains)

  def avoid(service: ServiceLocation): Unit = avoided += service

  /** True if these outputs, of all maps, are whole at the services that stay. */
  def isWholeAt(stays: ServiceLocation => Boolean, outputs: Iterable[RemoteOutput]): Boolean =
    plan.exists { plan =>
      def isThere(part: RemotePart): Boolean = plan.versions(part.version).indices.forall {
        group =>
          val services = part.servicesOf(plan, group)
          services.isEmpty || services.exists(stays)
      }
      outputs.forall(output => output.generation == generation && output.parts.forall(isThere))
    }

  /** Lets the service remove the shuffle: readers do not use it any more. */
  def release(service: ServiceLocation): Unit = released += service

  def uses(service: ServiceLocation): Boolean =
    services.contains(service) && !released.contains(service)

  /**
   * Waits for the next version. If no version is in the making, it returns the reply of the one
   * that the caller must make: see [[isMaking]].
   */
  def await(reply: SharedReply.Reply): Option[SharedReply] = {
    val isFirst = making.isEmpty
    if (isFirst) planning = Making(new SharedReply)
    making.foreach(_.add(reply))
    making.filter(_ => isFirst)
  }

  /**
   * False if the tasks got their answer meanwhile: readers did not wait, or the shuffle is removed.
   */
  def isMaking(awaited: SharedReply): Boolean = making.exists(_ eq awaited)

  /** Leaves the shuffle because no map output so far is a reason to merge. */
  def leaveForNow(reason: Reason): Unit = planning = LeftForNow(reason)

  def limitBlocks(bytes: Long): Unit = maxBlockBytes = bytes

  /**
   * Adds a version. All of its services must be usable, or no task would get an answer.
   *
   * @param areNear
   *   true if reduce tasks run where the services are
   */
  def assign(services: Seq[ServiceLocation], areNear: Boolean): Unit = {
    if (!isPlanned) hasLongStripes = areNear
    versions :+= services.toArray
    decide(Open)
  }

  /** Makes map tasks of this generation push nothing from now on. */
  def leave(reason: Reason): Unit = decide(Left(reason))

  /**
   * Makes readers of this generation take originals from now on. Returns false if they did before.
   */
  def distrust(found: Distrust): Boolean = {
    val isNew = distrusted.isEmpty
    if (isNew) distrusted = Some(found)
    isNew
  }

  /**
   * Begins a generation. Readers do not read earlier pushes. Waiting map tasks get a plan of the
   * new generation.
   */
  def beginGeneration(): Unit = {
    generation = if (keepsOriginals) shuffleMergeId else generation + 1
    versions = Vector.empty
    distrusted = None
    registrations.clear()
    released.clear()
    pushes = new PushesAwaited(numMaps)
    if (!isPlanning) planning = Open
  }

  def remove(): Unit = {
    isRemoved = true
    decide(Left(Reason.UnknownShuffle))
  }

  def isPlanning: Boolean = making.isDefined

  private def making: Option[SharedReply] = planning match {
    case Making(waiting) => Some(waiting)
    case Open | LeftForNow(_) | Left(_) => None
  }

  private def decide(next: Planning): Unit = {
    val waiting = making
    planning = next
    for (waiting <- waiting; answer <- pushPlan) waiting.give(answer)
  }
}

private[driver] object Shuffle {
  private val NoShuffleMergeId = -1

  /** A shuffle that moves more often is in a cluster that is not stable. */
  private val MaxVersions = 32

  /** The state of the next answer to map tasks. */
  private sealed trait Planning

  /** The newest version is the answer. If it is not usable, a map task has the next one made. */
  private case object Open extends Planning
  private final case class LeftForNow(reason: Reason) extends Planning
  private final case class Making(waiting: SharedReply) extends Planning
  private final case class Left(reason: Reason) extends Planning
}
