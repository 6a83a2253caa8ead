// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import scala.concurrent.{ExecutionContext, Future}

import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.report.DriverReport
import org.apache.spark.shuffle.lodestone.driver.services._
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.wire.ShuffleMode

/**
 * Plans the services to which the map tasks of a shuffle push: chooses services and registers the
 * shuffle there. If executors keep the map outputs, a plan has one version, and none if merging
 * gains nothing. In mode remote a service that takes no more, or is lost, leads to the next
 * version. All calls are events of the loop.
 */
private[driver] final class Planner(
    shuffles: Shuffles,
    choice: MergeChoice,
    directory: ServiceDirectory,
    registrar: ServiceRegistrar,
    removals: Removals,
    readers: Readers,
    report: DriverReport,
    nearHosts: Shuffle => Future[Set[String]],
    loop: EventLoop) extends Logged {
  import Planner._

  private implicit val events: ExecutionContext = loop.context

  private var warned = false

  def plan(message: GetPlan, reply: SharedReply.Reply): Unit =
    shuffles.find(message.shuffleId) match {
      case None => reply(NoPlan(Reason.UnknownShuffle))
      case Some(shuffle) if shuffle.keepsOriginals && shuffle.isOutdated(message.shuffleMergeId) =>
        reply(NoPlan(Reason.PushStale))
      case Some(shuffle) =>
        if (shuffle.isBegunBy(message.shuffleMergeId)) shuffles.beginGeneration(shuffle)
        message.trouble.foreach(avoidService(shuffle, _))
        shuffle.pushPlan match {
          case Some(answer) => reply(answer)
          case None if shuffle.keepsOriginals && !shuffle.isPlanning =>
            weigh(shuffle, message.sample.getOrElse(NothingSeen), reply)
          case None => await(shuffle, NoBytesKnown, reply)
        }
    }

  /** Decides by the first map outputs whether merging gains. */
  private def weigh(shuffle: Shuffle, sample: MapSample, reply: SharedReply.Reply): Unit = {
    val decision = choice(shuffle.numMaps, sample)
    report.chose(shuffle.id, sample, choice.limits(sample))
    decision match {
      case MergeChoice.Leave(reason) =>
        shuffle.leaveForNow(reason)
        reply(NoPlan(reason, forNow = true))
      case MergeChoice.Merge(maxBlockBytes) =>
        shuffle.limitBlocks(maxBlockBytes)
        await(shuffle, sample.bytesOf(shuffle.numMaps), reply)
    }
  }

  private def await(shuffle: Shuffle, bytes: Long, reply: SharedReply.Reply): Unit =
    shuffle.await(reply).foreach { awaited =>
      assign(new Making(shuffle, bytes, awaited), FirstTry)
    }

  private def avoidService(shuffle: Shuffle, trouble: ServiceTrouble): Unit =
    if (trouble.generation == shuffle.id.number && shuffle.isUsable(trouble.service)) {
      // The service is well, and most others would refuse such a record too.
      if (trouble.reason != Reason.PushTooLarge) shuffle.avoid(trouble.service)
      else if (!shuffle.isLeft) leave(shuffle, Reason.PushTooLarge)
      report.counted(shuffle.id, trouble.reason, 1)
    }

  private def assign(making: Making, attempt: Int): Unit = directory.live { found =>
    val shuffle = making.shuffle
    val usable = found.filter(service => shuffle.isUsable(service.location))
    val (id, partitions) = (shuffle.shuffleId, shuffle.numPartitions)
    val demand = Demand(id, partitions, making.bytes, shuffle.replicas)
    if (making.isOver) {
      // All waiting tasks have an answer.
    } else if (usable.isEmpty) {
      if (found.isEmpty) warnOnce(shuffle)
      leave(shuffle, Reason.NoService)
    } else if (!shuffle.mayMove) {
      leave(shuffle, Reason.RemoteMoved)
    } else if (shuffle.keepsOriginals && choice.isTooMuch(demand, usable)) {
      leave(shuffle, Reason.ServicesStrained)
    } else {
      report.counted(shuffle.id, Reason.ServiceLeftOut, directory.all.size - found.size)
      nearHosts(shuffle).onComplete { near =>
        val hosts = near.getOrElse(Set.empty[String])
        val areNear = shuffle.hasNearReads && hosts.size > 1 &&
          usable.forall(service => hosts(service.address.host))
        val placed = demand.copy(areNear = areNear)
        register(making, placed, attempt, Placement.choose(placed, usable, hosts))
      }
    }
  }

  private def register(
      making: Making,
      demand: Demand,
      attempt: Int,
      chosen: Seq[Service]): Unit = {
    val shuffle = making.shuffle
    val id = shuffle.id
    val mode = if (shuffle.keepsOriginals) ShuffleMode.Merge else ShuffleMode.Remote
    val registration =
      Registration(id, mode, shuffle.numMaps, shuffle.numPartitions, shuffle.format)
    shuffle.mayKnow(chosen.map(_.location))
    def isOver: Boolean = making.isOver || shuffle.id != id
    // An earlier version may have outputs there, which readers need also if no version comes.
    def remove(location: ServiceLocation): Unit =
      if (shuffle.removed || shuffle.id != id || !shuffle.services.contains(location)) {
        removals(location, id)
      }
    // A service that accepts too late gets a removal together with the others, and not before: the
    // next version may have it.
    def late(location: ServiceLocation): Unit =
      if (shuffle.isLeft || shuffle.id != id) remove(location)
    registrar(registration, chosen, shuffle.services)(late) { accepted =>
      // An executor may report a service, or an operator drain it, while the others are asked.
      val left = accepted.filter(shuffle.isUsable)
      if (isOver) {
        accepted.foreach(remove)
        assign(making, attempt)
      } else if (accepted.isEmpty && attempt < LastTry && !shuffle.keepsOriginals) {
        // Some services were restarted after their last answer. The directory now knows their
        // incarnation.
        assign(making, attempt + 1)
      } else if (accepted.isEmpty) {
        leave(shuffle, Reason.ServiceRefused)
      } else if (left.isEmpty) {
        // This ends, because all later versions avoid a service once it is avoided.
        assign(making, attempt)
      } else {
        report.counted(id, Reason.ServiceLeftOut, chosen.size - accepted.size)
        if (left.size < demand.replicas) report.counted(id, Reason.ReplicasMissing, 1)
        val placed = if (demand.replicas > 1) inZones(id, left, chosen, demand) else left
        shuffle.assign(placed, demand.areNear)
        readers.check(shuffle)
      }
    }
  }

  /**
   * Orders services so that the replicas of a partition are in different zones if they can be. One
   * that is left out has the shuffle, empty, until its removal.
   */
  private def inZones(
      id: ShuffleGeneration,
      left: Seq[ServiceLocation],
      chosen: Seq[Service],
      demand: Demand): Seq[ServiceLocation] = {
    val locations = left.map(location => location.address -> location).toMap
    val stay = chosen.filter(service => locations.contains(service.address))
    val placed = Zones.spread(stay, Placement.leavesOut(demand))
    val areKnown = chosen.forall(_.hasNamedZone)
    if (areKnown && placed.size > 1 && !Zones.areApart(placed)(_.zone)) {
      report.counted(id, Reason.ReplicasInOneZone, 1)
    }
    placed.map(service => locations(service.address))
  }

  private def leave(shuffle: Shuffle, reason: Reason): Unit = {
    shuffle.leave(reason)
    readers.check(shuffle)
  }

  /** Warns the user, who asked for services and has none. */
  private def warnOnce(shuffle: Shuffle): Unit = if (!warned) {
    warned = true
    val asked = directory.all.map(_.address.toString)
    val where = if (asked.isEmpty) "no address is known" else s"asked: ${asked.mkString(", ")}"
    val consequence =
      if (shuffle.keepsOriginals) {
        s"${shuffle.id} is not merged (${Reason.NoService}), nor is any shuffle while this lasts"
      } else {
        s"${LodestoneConf.ModeKey.key} is remote, but executors keep the map outputs of " +
          s"${shuffle.id}, and of every shuffle while this lasts: if an executor is lost, Spark " +
          "runs its maps again"
      }
    log.warn(
      s"No shuffle service can be used ($where). $consequence. Check that the daemons run, " +
        s"that this host reaches them, and ${LodestoneConf.Services.key}. If it is not set, the " +
        "executors' logs say why they could not start a daemon.")
  }
}

private[driver] object Planner {

  /** A version of a plan in the making. Map tasks wait for it. */
  private final class Making(val shuffle: Shuffle, val bytes: Long, awaited: SharedReply) {

    /**
     * True if readers did not wait for it, or the shuffle is removed. A new version may be in the
     * making.
     */
    def isOver: Boolean = !shuffle.isMaking(awaited)
  }

  private val FirstTry = 1
  private val LastTry = 2

  /** The plan of a remote shuffle is made before its map tasks write. */
  private val NoBytesKnown = 0L
  private val NothingSeen = MapSample(0, 0, 0, diskReadMicros = -1)
}
