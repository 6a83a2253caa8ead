// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import scala.concurrent.ExecutionContext
import scala.util.control.NonFatal

import org.apache.spark.MapOutputTrackerMaster
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.plans.{Shuffle, Shuffles}
import org.apache.spark.shuffle.lodestone.driver.report.DriverReport
import org.apache.spark.shuffle.lodestone.driver.services.ServiceDirectory
import org.apache.spark.shuffle.lodestone.plan._

/**
 * Answers reduce tasks that cannot read outputs of a remote shuffle, or may not read originals. All
 * calls are events of the loop.
 */
private[driver] final class LostOutputs(
    shuffles: Shuffles,
    claims: LossClaims,
    directory: ServiceDirectory,
    report: DriverReport,
    tracker: () => MapOutputTrackerMaster,
    killTask: (Long, String) => Unit,
    loop: EventLoop) extends Logged {
  private implicit val events: ExecutionContext = loop.context

  /**
   * Replies after Spark has forgotten lost outputs: the next task that fails makes Spark run the
   * maps again. If nothing is lost, the reply is false, and the driver kills the task.
   */
  def lost(message: OutputsLost, reply: Boolean => Unit): Unit =
    shuffles.find(message.shuffleId) match {
      case None => reply(true)
      case Some(shuffle) if message.generation != shuffle.id.number =>
        forgetEarlier(shuffle)
        reply(true)
      case Some(shuffle) =>
        val id = shuffle.id
        claims.judge(shuffle, message, isWholeAt(shuffle, _)) { outcome =>
          val forgotten = conclude(shuffle, id, message.lost.reason, outcome)
          reply(forgotten)
          if (!forgotten) {
            killTask(message.taskId, s"executor ${message.executorId} cannot read shuffle $id")
          }
        }
    }

  def isWholeAt(shuffle: Shuffle, services: Set[ServiceLocation]): Boolean =
    outputs(shuffle).exists(shuffle.isWholeAt(services.contains, _))

  /** Returns whether outputs were forgotten. */
  private def conclude(
      shuffle: Shuffle,
      id: ShuffleGeneration,
      reason: Reason,
      outcome: LossClaims.Outcome): Boolean = outcome match {
    case _ if shuffle.removed => true
    case _ if shuffle.id != id =>
      forgetEarlier(shuffle)
      true
    case LossClaims.Lost(services) =>
      val where = services.map(one => s" at ${one.hostPort}").mkString(",")
      log.warn(s"$id has lost map outputs ($reason)$where: all of its maps are run again")
      report.counted(id, reason, 1)
      makeAgain(shuffle, services)
      findOthersLostAt(services.toSet)
      true
    case LossClaims.There =>
      report.counted(id, Reason.ReaderCutOff, 1)
      false
  }

  /** Makes Spark run all maps of the shuffle again, without these services. */
  private def makeAgain(shuffle: Shuffle, services: Iterable[ServiceLocation]): Unit = {
    services.foreach { service =>
      shuffle.avoid(service)
      directory.doubt(service)
    }
    forgetAll(shuffle.shuffleId)
    shuffles.beginGeneration(shuffle)
  }

  /**
   * Looks for other shuffles that are lost with the same services, as Spark forgets all outputs of
   * an executor that it loses. A stage that reads several shuffles reads one after the other: it
   * would fail for each of them in turn, and after a few failures Spark ends the job. Shuffles
   * whose maps still run have no readers yet. Maps of other shuffles may write other records when
   * they run again. A reader has to report these: then Spark runs the tasks again that have read
   * the old records, or ends the job.
   */
  private def findOthersLostAt(services: Set[ServiceLocation]): Unit =
    for {
      other <- shuffles.all.toSeq
      its = services.filter(other.uses)
      if its.nonEmpty && !other.keepsOriginals && other.isRepeatable && outputs(other).isDefined
    } {
      val id = other.id
      claims.missingAt(id, its).foreach { gone =>
        val stay = other.services -- gone
        def isLost = outputs(other).exists(!other.isWholeAt(stay.contains, _))
        if (gone.nonEmpty && !other.removed && other.id == id && isLost) {
          val where = gone.map(_.hostPort).mkString(", ")
          log.warn(s"$id is lost with $where as well: all of its maps are run again")
          report.counted(id, Reason.OutputLost, 1)
          makeAgain(other, gone)
        }
      }
    }

  private def forgetAll(shuffleId: Int): Unit =
    unlessGone(shuffleId)(tracker().unregisterAllMapAndMergeOutput(shuffleId))

  private def unlessGone(shuffleId: Int)(forget: => Unit): Unit =
    try {
      forget
    } catch {
      // Spark no longer knows the shuffle (ShuffleStatusNotFoundException), so it has no readers.
      // After any other failure no row is lost or doubled either: outputs that Spark did not forget
      // name an older generation, readers refuse these, and forgetEarlier forgets them one by one.
      case NonFatal(failure) =>
        log.info(s"Spark does not forget the outputs of shuffle $shuffleId", failure)
    }

  /**
   * Forgets outputs of attempts that ran when their generation ended, and that Spark accepted
   * later.
   */
  private def forgetEarlier(shuffle: Shuffle): Unit = {
    val isEarlier = (output: MapStatus) =>
      RemoteOutput.isRemote(output.location) &&
        RemoteOutput.of(output.location).generation < shuffle.id.number
    val maps = forget(shuffle.shuffleId)(isEarlier)
    if (maps.nonEmpty) {
      log.warn(
        s"${shuffle.id}: outputs of an old generation are made again (maps ${maps.mkString(", ")})")
    }
  }

  /**
   * Forgets the originals that may be as wrong as merged data was. Returns false if the driver does
   * not know the shuffle.
   */
  def suspected(message: OutputsSuspected): Boolean = {
    val id = message.generation
    val found = shuffles.current(id)
    if (found.isDefined) {
      val maps = forget(id.shuffleId)(_.mapId < message.taskId)
      if (maps.nonEmpty) {
        log.warn(
          s"$id: merged data was wrong, and no number shows whether the originals are right: " +
            s"Spark runs again all maps that had begun (${maps.size} outputs)")
      }
    }
    found.isDefined
  }

  /** Forgets the outputs that Spark has now, and returns their map indexes. */
  private def forget(shuffleId: Int)(isBad: MapStatus => Boolean): Seq[Int] = {
    val outputs = tracker()
    val bad = outputs.shuffleStatuses.get(shuffleId).toSeq.flatMap(_.withMapStatuses { statuses =>
      statuses.toSeq.zipWithIndex.filter { case (output, _) => output != null && isBad(output) }
    })
    unlessGone(shuffleId) {
      for ((output, mapIndex) <- bad) {
        outputs.unregisterMapOutput(shuffleId, mapIndex, output.location)
      }
    }
    bad.map(_._2)
  }

  /** Returns the different outputs that Spark knows, or None if a map has none. */
  private def outputs(shuffle: Shuffle): Option[Set[RemoteOutput]] =
    tracker().shuffleStatuses.get(shuffle.shuffleId).flatMap(_.withMapStatuses { statuses =>
      if (statuses.contains(null)) None
      else Some(statuses.map(_.location).distinct)
    }).map(_.filter(RemoteOutput.isRemote).map(RemoteOutput.of).toSet)
}
