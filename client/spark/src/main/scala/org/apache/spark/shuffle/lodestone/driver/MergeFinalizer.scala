// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import scala.concurrent.{ExecutionContext, Future}
import scala.util.Success

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.{LodestoneConf, Reason}
import org.apache.spark.shuffle.lodestone.driver.services.ServiceDirectory
import org.apache.spark.shuffle.lodestone.transport.{ServiceClient, ServiceLocation}
import org.apache.spark.shuffle.lodestone.wire.FinalizeMergeReply

/**
 * Finalizes a generation when every map has reported, or when readers have waited long enough for
 * those that have not. What came of it is remembered: all readers get the same answer.
 */
private[driver] final class MergeFinalizer(
    conf: LodestoneConf,
    shuffles: ShuffleTable,
    directory: ServiceDirectory,
    client: ServiceClient,
    report: DriverReport,
    loop: EventLoop) {
  import MergeFinalizer._

  private val log = LoggerFactory.getLogger(classOf[MergeFinalizer])
  private implicit val events: ExecutionContext = loop.context

  def mapPushed(message: MapPushed): Unit = {
    report.pushed(message)
    shuffles.current(message.generation).foreach { generation =>
      generation.report(message.mapIndex)
      check(generation)
    }
  }

  def result(id: ShuffleGeneration, reply: SharedAnswer.Reply): Unit =
    shuffles.current(id) match {
      case None if shuffles.find(id.shuffleId).isEmpty =>
        reply(NotMerged(Reason.UnknownShuffle.code))
      case None => reply(NotMerged(Reason.NothingPushed.code))
      case Some(generation) =>
        if (generation.result.ask(reply)) {
          loop.later(conf.finalizeTimeoutMs)(begin(generation))
        }
        check(generation)
    }

  /** Finalizes if nothing is left to wait for. */
  def check(generation: Generation): Unit =
    generation.plan.answer.foreach { plan =>
      if (generation.allReported || plan.isInstanceOf[NotMerged]) begin(generation)
    }

  /** Later attempts read this partition from the originals. False: nothing of it is known. */
  def exclude(id: ShuffleGeneration, reduceId: Int): Boolean = {
    val generation = shuffles.current(id)
    generation.flatMap(_.result.answer).foreach {
      case plan: MergePlan if !plan.excluded.contains(reduceId) =>
        report.counted(id, Reason.PartitionExcluded, 1)
        log.warn(s"Partition $reduceId of $id is read from the originals from now on")
        val without =
          if (plan.excluded.length < MaxExcluded) {
            plan.copy(excluded = plan.excluded :+ reduceId)
          } else {
            NotMerged(Reason.PartitionExcluded.code)
          }
        generation.foreach(_.result.replace(without))
      case _ => // nothing of it is merged
    }
    generation.isDefined
  }

  private def begin(generation: Generation): Unit =
    if (!generation.finalizing && !generation.removed) {
      val nothingPushed = generation.allReported && report.nothingPushed(generation.id)
      generation.beginFinalize()
      generation.plan.answer match {
        case Some(plan: MergePlan) if nothingPushed =>
          plan.services.foreach(client.removeShuffle(_, generation.id))
          decide(generation, NotMerged(Reason.NothingPushed.code))
        case Some(plan: MergePlan) => finalizeAll(generation, plan)
        case Some(notMerged) => decide(generation, notMerged)
        case None => decide(generation, NotMerged(Reason.NotFinalized.code))
      }
    }

  private def decide(generation: Generation, answer: DriverMessage): Unit = {
    report.decided(generation.id, answer)
    generation.result.decide(answer)
  }

  private def finalizeAll(generation: Generation, plan: MergePlan): Unit = {
    val startMs = loop.nowMs
    val outcomes = Future.traverse(plan.services.toSeq) { service =>
      client
        .finalizeMerge(service, generation.id)
        .map(totals => (service, Option(totals)))
        .recover { case failure =>
          directory.failed(service, failure)
          log.warn(s"${service.hostPort} did not finalize ${generation.id}: ${failure.getMessage}")
          (service, None)
        }
    }
    outcomes.andThen { case Success(all) =>
      finalized(generation, all, loop.nowMs - startMs)
    }
  }

  private def finalized(
      generation: Generation,
      outcomes: Seq[(ServiceLocation, Option[FinalizeMergeReply])],
      tookMs: Long): Unit = {
    val live = outcomes.collect { case (service, Some(_)) => service }
    report.finalized(generation.id, outcomes.flatMap(_._2), outcomes.size - live.size, tookMs)
    val answer =
      if (live.isEmpty) {
        NotMerged(Reason.NotFinalized.code)
      } else {
        val positions = outcomes.map { case (service, totals) => totals.map(_ => service).orNull }
        MergePlan(generation.numPartitions, positions.toArray, Array.empty)
      }
    decide(generation, answer)
  }
}

private[driver] object MergeFinalizer {

  /** Partitions that failed while they were read; past this, the whole shuffle is left alone. */
  private val MaxExcluded = 1000
}
