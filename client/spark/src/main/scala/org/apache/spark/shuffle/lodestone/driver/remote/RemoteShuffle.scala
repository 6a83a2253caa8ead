// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.remote

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver._
import org.apache.spark.shuffle.lodestone.transport.ServiceLocation

/** One remote shuffle as the driver knows it: O(services) of state, whatever the number of maps. */
private[remote] final class RemoteShuffle(
    val shuffleId: Int,
    val numMaps: Int,
    val numPartitions: Int,
    replicas: Int) {
  import RemoteShuffle._

  /** Spark's; none before the first map task. */
  private var mergeId = NoMergeId
  private var epoch = 0
  private var versions = Vector.empty[Array[ServiceLocation]]
  private val avoided = mutable.HashSet.empty[ServiceLocation]

  /** Services that were told of this epoch, also those that did not answer in time. */
  private val asked = mutable.HashSet.empty[ServiceLocation]

  /** Of this epoch. */
  private val released = mutable.HashSet.empty[ServiceLocation]

  /** Map tasks of this epoch keep their outputs from now on, and why. */
  private var local: Option[Reason] = None

  /** Those who wait for the next version, while it is made. */
  private var planning: Option[SharedAnswer] = None
  private var isRemoved = false

  def id: ShuffleGeneration = ShuffleGeneration(shuffleId, epoch)

  def removed: Boolean = isRemoved

  /** Every service that map tasks of this epoch were told. */
  def services: Set[ServiceLocation] = versions.iterator.flatMap(_.iterator).toSet

  /** Every service that may know of this epoch. */
  def told: Set[ServiceLocation] = asked.toSet

  def mayKnow(services: Seq[ServiceLocation]): Unit = asked ++= services

  /** All that map tasks pushed in this epoch, if there is a plan of it. */
  def places: Option[RemotePlan] =
    if (versions.isEmpty) None
    else Some(RemotePlan(epoch, numPartitions, replicas, versions.toArray))

  /** What map tasks are told. None: a version has to be made. */
  def answer: Option[DriverMessage] =
    local
      .map(reason => NotMerged(reason.code))
      .orElse(places.filterNot(_.versions.last.exists(avoided.contains)))

  def isUsable(service: ServiceLocation): Boolean = !avoided.contains(service)

  def mayMove: Boolean = versions.size < MaxVersions

  /** All maps are run again because Spark says so. */
  def isRolledBackBy(newMergeId: Int): Boolean = {
    val again = mergeId != NoMergeId && newMergeId > mergeId
    mergeId = math.max(mergeId, newMergeId)
    again
  }

  /** Services that may have segments of the partition. */
  def holdersOf(reduceId: Int): Seq[ServiceLocation] =
    places.toSeq.flatMap(_.servicesOf(reduceId)).filterNot(released.contains)

  def avoid(service: ServiceLocation): Unit = avoided += service

  /** Whether all that these outputs, of all maps, say is at services that stay. */
  def isWholeAt(stays: ServiceLocation => Boolean, outputs: Iterable[RemoteOutput]): Boolean =
    places.exists { plan =>
      def isThere(part: RemotePart): Boolean = plan.versions(part.version).indices.forall {
        group =>
          val holders = part.holders(plan, group)
          holders.isEmpty || holders.exists(stays)
      }
      outputs.forall(output => output.epoch == epoch && output.parts.forall(isThere))
    }

  /** The service may forget the shuffle: nothing of it is read there any more. */
  def letGo(service: ServiceLocation): Unit = released += service

  def uses(service: ServiceLocation): Boolean =
    services.contains(service) && !released.contains(service)

  /** True for the first who asks for a version that is not there. */
  def await(reply: SharedAnswer.Reply): Boolean = {
    val isFirst = planning.isEmpty
    val answer = planning.getOrElse(new SharedAnswer)
    planning = Some(answer)
    answer.ask(reply)
    isFirst
  }

  /** Of usable ones: with another among them it would be no answer for those who wait. */
  def assign(services: Seq[ServiceLocation]): Unit = {
    versions :+= services.toArray
    tell()
  }

  def leave(reason: Reason): Unit = {
    local = Some(reason)
    tell()
  }

  /** Whatever was pushed so far counts no more. Who waits for a plan gets one of the new epoch. */
  def beginEpoch(): Unit = {
    epoch += 1
    versions = Vector.empty
    asked.clear()
    released.clear()
    local = None
  }

  def remove(): Unit = {
    isRemoved = true
    local = Some(Reason.UnknownShuffle)
    tell()
  }

  private def tell(): Unit = {
    val waiting = planning
    planning = None
    for (all <- waiting; answer <- answer) all.decide(answer)
  }
}

private[remote] object RemoteShuffle {
  private val NoMergeId = -1

  /** A shuffle that was moved so often is in a cluster that does not hold still. */
  private val MaxVersions = 32
}
