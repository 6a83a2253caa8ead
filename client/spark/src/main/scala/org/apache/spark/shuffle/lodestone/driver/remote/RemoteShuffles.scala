// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.remote

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.MapOutputTrackerMaster
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.{LodestoneConf, Reason}
import org.apache.spark.shuffle.lodestone.driver._
import org.apache.spark.shuffle.lodestone.driver.services._
import org.apache.spark.shuffle.lodestone.transport.{ServiceClient, ServiceLocation}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, ShuffleMode}
import org.apache.spark.storage.BlockManagerId

/**
 * Remote shuffles: which services have them, in which version of the plan and in which epoch. All calls
 * are events of the loop.
 */
private[driver] final class RemoteShuffles(
    conf: LodestoneConf,
    directory: ServiceDirectory,
    registration: Registration,
    client: ServiceClient,
    removals: Removals,
    report: DriverReport,
    tracker: () => MapOutputTrackerMaster,
    nearHosts: () => Future[Set[String]],
    executorCount: () => Future[Int],
    killTask: (Long, String) => Unit,
    loop: EventLoop) {
  import RemoteShuffles._

  private val log = LoggerFactory.getLogger(classOf[RemoteShuffles])
  private implicit val events: ExecutionContext = loop.context
  private val shuffles = mutable.HashMap.empty[Int, RemoteShuffle]
  private val claims = new LossClaims(conf, client, executorCount, loop)

  /** That no service can be used has been said. */
  private var warned = false

  def registered(shuffleId: Int, numMaps: Int, numPartitions: Int): Unit =
    shuffles.put(shuffleId, new RemoteShuffle(shuffleId, numMaps, numPartitions, conf.replicas))

  /** For a map task. */
  def plan(message: GetRemotePlan, reply: SharedAnswer.Reply): Unit =
    shuffles.get(message.shuffleId) match {
      case None => reply(NotMerged(Reason.UnknownShuffle.code))
      case Some(shuffle) =>
        if (shuffle.isRolledBackBy(message.mergeId)) beginEpoch(shuffle)
        message.trouble.foreach(note(shuffle, _))
        shuffle.answer match {
          case Some(answer) => reply(answer)
          case None => if (shuffle.await(reply)) assign(shuffle, FirstTry)
        }
    }

  /** For a reduce task. */
  def places(shuffleId: Int, reply: SharedAnswer.Reply): Unit =
    reply(shuffles.get(shuffleId).flatMap(_.places).getOrElse {
      NotMerged(Reason.UnknownShuffle.code)
    })

  /** Where map tasks push to now. None: the shuffle is not remote, or gone. */
  def inUse(shuffleId: Int): Option[(ShuffleGeneration, Set[ServiceLocation])] =
    shuffles.get(shuffleId).map(shuffle => (shuffle.id, shuffle.services.filter(shuffle.uses)))

  /**
   * What is lost Spark forgets before the reply: whoever fails next makes it run the maps again. The reply
   * is false where nothing was forgotten, and the task is killed then.
   */
  def lost(message: OutputsLost, reply: Boolean => Unit): Unit =
    shuffles.get(message.shuffleId) match {
      case None => reply(true)
      case Some(shuffle) if message.epoch != shuffle.id.mergeId =>
        forgetEarlierOutputs(shuffle)
        reply(true)
      case Some(shuffle) =>
        val id = shuffle.id
        val told = new LossClaims.Generation(id) {
          override def isOver: Boolean = shuffle.removed || shuffle.id != this.id
          override def isWholeWithout(gone: Set[ServiceLocation]): Boolean =
            isWholeAt(shuffle, shuffle.services -- gone)
          override def holdersOf(reduceId: Int): Seq[ServiceLocation] =
            shuffle.holdersOf(reduceId)
        }
        claims.judge(told, message) { verdict =>
          val forgotten = conclude(shuffle, id, message.code, verdict)
          reply(forgotten)
          if (!forgotten) {
            killTask(message.taskId, s"executor ${message.executorId} cannot read shuffle $id")
          }
        }
    }

  /** Whether outputs were forgotten. */
  private def conclude(
      shuffle: RemoteShuffle,
      id: ShuffleGeneration,
      code: String,
      verdict: LossClaims.Verdict): Boolean = verdict match {
    case _ if shuffle.removed => true
    case _ if shuffle.id != id =>
      forgetEarlierOutputs(shuffle)
      true
    case LossClaims.Lost(services) =>
      log.warn(
        s"$id has lost map outputs ($code) at " +
          s"${services.map(_.hostPort).mkString(", ")}: all of its maps are run again")
      Reason.of(code).foreach(report.counted(id, _, 1))
      services.foreach { service =>
        shuffle.avoid(service)
        directory.doubt(service)
      }
      forgetOutputs(shuffle.shuffleId)
      beginEpoch(shuffle)
      true
    case LossClaims.There =>
      report.counted(id, Reason.ReaderCutOff, 1)
      false
  }

  /** The service is drained: it gets nothing more, and is let go of what others have as well. */
  def leaves(service: Service): Unit = {
    val leaving = service.location
    for (shuffle <- shuffles.values if shuffle.uses(leaving)) {
      shuffle.avoid(leaving)
      def stays(other: ServiceLocation): Boolean =
        shuffle.uses(other) && other != leaving && directory.isServing(other)
      val others = shuffle.services.filter(stays)
      if (isWholeAt(shuffle, others)) {
        val id = shuffle.id
        whoHas(id, others).foreach { there =>
          val isSame = !shuffle.removed && shuffle.id == id && shuffle.uses(leaving)
          if (isSame && isWholeAt(shuffle, there)) letGo(shuffle, leaving)
        }
      }
    }
  }

  private def isWholeAt(shuffle: RemoteShuffle, services: Set[ServiceLocation]): Boolean =
    outputs(shuffle).exists(shuffle.isWholeAt(services.contains, _))

  /** Asked now: what a service said when its lease was last renewed may be half a minute old. */
  private def whoHas(
      id: ShuffleGeneration,
      services: Set[ServiceLocation]): Future[Set[ServiceLocation]] =
    Future
      .traverse(services.toSeq) { service =>
        client
          .layout(service, id, AnyMap, AnyPartition, segments = 1)
          .map(_ => Some(service))
          .recover { case failure =>
            log.warn(s"${service.hostPort} does not show $id: ${failure.getMessage}")
            None
          }
      }
      .map(_.flatten.toSet)

  private def letGo(shuffle: RemoteShuffle, leaving: ServiceLocation): Unit = {
    log.info(s"${leaving.hostPort} leaves, and all of ${shuffle.id} is elsewhere as well")
    shuffle.letGo(leaving)
    removals(leaving, shuffle.id)
  }

  def removed(shuffleId: Int): Unit = shuffles.remove(shuffleId).foreach { shuffle =>
    claims.forget(shuffle.id)
    drop(shuffle)
    shuffle.remove()
    report.removed(shuffleId)
  }

  private def note(shuffle: RemoteShuffle, trouble: ServiceTrouble): Unit =
    if (trouble.epoch == shuffle.id.mergeId && shuffle.isUsable(trouble.service)) {
      shuffle.avoid(trouble.service)
      Reason.of(trouble.code).foreach(report.counted(shuffle.id, _, 1))
    }

  private def forgetOutputs(shuffleId: Int): Unit =
    try {
      tracker().unregisterAllMapAndMergeOutput(shuffleId)
    } catch {
      // Spark has dropped the shuffle: nobody will read it.
      case NonFatal(failure) => log.info(s"Outputs of shuffle $shuffleId: ${failure.getMessage}")
    }

  /** Of attempts that were still at it when their epoch was given up, and told Spark afterwards. */
  private def forgetEarlierOutputs(shuffle: RemoteShuffle): Unit = {
    val outputs = tracker()
    for {
      status <- outputs.shuffleStatuses.get(shuffle.shuffleId)
      (location, mapIndex) <- status.withMapStatuses(_.map(locationOf).zipWithIndex)
      earlier <- location if RemoteOutput.of(earlier).epoch < shuffle.id.mergeId
    } {
      log.warn(s"${shuffle.id}: the output of map $mapIndex is of an earlier epoch, and run again")
      outputs.unregisterMapOutput(shuffle.shuffleId, mapIndex, earlier)
    }
  }

  private def locationOf(output: MapStatus): Option[BlockManagerId] =
    Option(output).map(_.location).filter(RemoteOutput.isRemote)

  /** Where Spark says that map outputs are, each place once. None: not all maps have one. */
  private def outputs(shuffle: RemoteShuffle): Option[Set[RemoteOutput]] =
    tracker().shuffleStatuses.get(shuffle.shuffleId).flatMap(_.withMapStatuses { statuses =>
      if (statuses.contains(null)) None
      else Some(statuses.map(_.location).distinct)
    }).map(_.filter(RemoteOutput.isRemote).map(RemoteOutput.of).toSet)

  private def beginEpoch(shuffle: RemoteShuffle): Unit = {
    claims.forget(shuffle.id)
    drop(shuffle)
    shuffle.beginEpoch()
    report.began(shuffle.id)
  }

  private def drop(shuffle: RemoteShuffle): Unit =
    shuffle.told.foreach(removals(_, shuffle.id))

  /** Makes the next version of the plan. */
  private def assign(shuffle: RemoteShuffle, attempt: Int): Unit = directory.live { found =>
    val usable = found.filter(service => shuffle.isUsable(service.location))
    if (shuffle.removed) {
      // Those who waited were told.
    } else if (usable.isEmpty) {
      if (found.isEmpty) warnOnce(shuffle)
      leave(shuffle, Reason.NoService)
    } else if (!shuffle.mayMove) {
      leave(shuffle, Reason.RemoteMoved)
    } else {
      report.counted(shuffle.id, Reason.ServiceLeftOut, directory.all.size - found.size)
      nearHosts().onComplete { near =>
        val demand =
          Demand(shuffle.shuffleId, shuffle.numPartitions, NoBytesKnown, conf.replicas)
        register(shuffle, attempt, Placement.choose(demand, usable, near.getOrElse(Set.empty)))
      }
    }
  }

  private def register(shuffle: RemoteShuffle, attempt: Int, chosen: Seq[Service]): Unit = {
    val id = shuffle.id
    val told = Announcement(id, ShuffleMode.Remote, shuffle.numMaps, shuffle.numPartitions)
    shuffle.mayKnow(chosen.map(_.location))
    def isOver: Boolean = shuffle.removed || shuffle.id != id
    // One that was slow is dropped with the others, and not before: it may have been told again since.
    def late(location: ServiceLocation): Unit = if (isOver) removals(location, id)
    registration(told, chosen, shuffle.services)(late) { accepted =>
      // One may have been reported, or drained, while the others were asked.
      val usable = accepted.filter(shuffle.isUsable)
      if (isOver) {
        accepted.foreach(removals(_, id))
        if (!shuffle.removed) assign(shuffle, attempt)
      } else if (accepted.isEmpty && attempt < LastTry) {
        // Some were started again since they were last asked: that is known now.
        assign(shuffle, attempt + 1)
      } else if (accepted.isEmpty) {
        leave(shuffle, Reason.ServiceRefused)
      } else if (usable.isEmpty) {
        // Each time there are fewer left: what is avoided once is avoided for good.
        assign(shuffle, attempt)
      } else {
        report.counted(id, Reason.ServiceLeftOut, chosen.size - accepted.size)
        if (usable.size < conf.replicas) report.counted(id, Reason.ReplicasMissing, 1)
        shuffle.assign(usable)
        report.remote(id, shuffle.services.size)
      }
    }
  }

  /** The application asked for it, and goes on without: somebody should know. */
  private def warnOnce(shuffle: RemoteShuffle): Unit = if (!warned) {
    warned = true
    val asked = directory.all.map(_.address.toString)
    val where = if (asked.isEmpty) "no address is known" else s"asked: ${asked.mkString(", ")}"
    log.warn(
      s"No shuffle service can be used ($where). ${LodestoneConf.ModeKey.key} is remote, and " +
        s"yet executors keep the map outputs of ${shuffle.id}, and of every shuffle while that " +
        "is so: nobody protects them, and their maps are run again where an executor is lost. " +
        "Check that the daemons run and that this host reaches them, and " +
        s"${LodestoneConf.Services.key}.")
  }

  private def leave(shuffle: RemoteShuffle, reason: Reason): Unit = {
    report.decided(shuffle.id, NotMerged(reason.code))
    shuffle.leave(reason)
  }
}

private[driver] object RemoteShuffles {
  private val FirstTry = 1

  /** To a question whose answer is that the service knows the shuffle. */
  private val AnyMap = MapRange(0, 1)
  private val AnyPartition = Array(0)
  private val LastTry = 2

  /** Nothing has been written when services are chosen. */
  private val NoBytesKnown = 0L
}
