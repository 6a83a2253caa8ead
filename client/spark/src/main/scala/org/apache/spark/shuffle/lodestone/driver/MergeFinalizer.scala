// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import scala.concurrent.{ExecutionContext, Future}
import scala.util.{Failure, Success, Try}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.{LodestoneConf, Reason}
import org.apache.spark.shuffle.lodestone.driver.services.{Removals, ServiceDirectory}
import org.apache.spark.shuffle.lodestone.transport.{ServiceClient, ServiceLocation}
import org.apache.spark.shuffle.lodestone.wire.{FinalizeMergeReply, RetainAttempts}

/**
 * Finalizes a generation when every map has reported, or when readers have waited long enough for
 * those that have not. What came of it is remembered: all readers get the same answer.
 */
private[driver] final class MergeFinalizer(
    conf: LodestoneConf,
    shuffles: ShuffleTable,
    directory: ServiceDirectory,
    client: ServiceClient,
    removals: Removals,
    report: DriverReport,
    loop: EventLoop) {
  import MergeFinalizer.Verdict

  private val log = LoggerFactory.getLogger(classOf[MergeFinalizer])
  private implicit val events: ExecutionContext = loop.context

  def mapPushed(message: MapPushed): Unit = {
    report.pushed(message)
    shuffles.current(message.generation).foreach { generation =>
      generation.report(message.mapIndex, message.mapId, message.counts)
      check(generation)
    }
  }

  def result(id: ShuffleGeneration, reply: SharedAnswer.Reply): Unit =
    shuffles.current(id) match {
      case None if shuffles.find(id.shuffleId).isEmpty =>
        reply(NotMerged(Reason.UnknownShuffle.code))
      case None => reply(NotMerged(Reason.NothingPushed.code))
      case Some(generation) =>
        if (generation.askedAtMs.isEmpty) generation.askedAtMs = Some(loop.nowMs)
        leaveToSpark(generation)
        if (generation.result.ask(reply)) {
          loop.later(conf.finalizeTimeoutMs)(begin(generation))
        }
        check(generation)
    }

  /** No map was reason enough to merge, and now it is too late. */
  private def leaveToSpark(generation: Generation): Unit =
    if (!generation.plan.wasAsked) {
      generation.leftForNow.foreach(why => generation.plan.decide(NotMerged(why.code)))
    }

  /** Finalizes if nothing is left to wait for. */
  def check(generation: Generation): Unit =
    generation.plan.answer.foreach { plan =>
      if (generation.allReported || plan.isInstanceOf[NotMerged]) begin(generation)
    }

  /** Later attempts read the originals, and check them. False: nothing of it is known. */
  def distrust(message: DistrustMerged): Boolean = {
    val id = message.generation
    val generation = shuffles.current(id)
    generation.foreach { known =>
      known.result.answer match {
        case Some(plan: MergePlan) if plan.distrusted.isEmpty =>
          log.warn(
            s"$id is read from the originals from now on: merged data of partition " +
              s"${message.reduceId} proved wrong (${message.code})")
          report.decided(id, NotMerged(message.code))
          known.result.replace(plan.copy(distrusted = Some(message.code)))
        case _ => // nothing of it is read merged
      }
    }
    generation.isDefined
  }

  private def begin(generation: Generation): Unit =
    if (!generation.finalizing && !generation.removed) {
      val nothingPushed = generation.allReported && report.nothingPushed(generation.id)
      generation.beginFinalize()
      generation.plan.answer match {
        case Some(plan: MergePlan) if nothingPushed =>
          plan.services.foreach(removals(_, generation.id))
          decide(generation, NotMerged(Reason.NothingPushed.code))
        case Some(plan: MergePlan) =>
          report.counted(generation.id, Reason.FinalizeEarly, generation.unreported)
          finalizeAll(generation, plan)
        case Some(notMerged) => decide(generation, notMerged)
        case None => decide(generation, NotMerged(Reason.NotFinalized.code))
      }
    }

  private def decide(generation: Generation, answer: DriverMessage): Unit = {
    generation.askedAtMs.foreach(since => report.waited(generation.id, loop.nowMs - since))
    report.decided(generation.id, answer)
    generation.result.decide(answer)
  }

  private def finalizeAll(generation: Generation, plan: MergePlan): Unit = {
    val startMs = loop.nowMs
    val verdicts = Future.traverse(plan.services.toSeq.zipWithIndex) { case (service, index) =>
      client
        .finalizeMerge(service, generation.id)
        .flatMap(accounted(generation, service, index, _))
        .transform(outcome => Success(judge(generation, service, outcome)))
    }
    verdicts.andThen { case Success(all) =>
      finalized(generation, plan.services.toSeq, all, loop.nowMs - startMs)
    }
  }

  /**
   * What the service shows, if that is just what map attempts say that it has of them. If it has more, of
   * attempts that did not report or do not know, it is made to show the others only.
   */
  private def accounted(
      generation: Generation,
      service: ServiceLocation,
      index: Int,
      totals: FinalizeMergeReply): Future[Verdict] = {
    val ledger = generation.accounts.ledgerAt(index)
    def compared(shown: FinalizeMergeReply): Verdict =
      if (shown.ledger == ledger) {
        Right(shown)
      } else {
        report.counted(generation.id, Reason.LedgerMismatch, 1)
        log.error(
          s"${service.hostPort} has other blocks of ${generation.id} than map tasks were told: " +
            s"$shown, and $ledger. Nothing of it is read from there.")
        Left(Reason.LedgerMismatch)
      }
    val attempts = generation.accounts.attemptsAt(index)
    val mayHaveMore =
      totals.ledger.segments >= ledger.segments && attempts.length <= RetainAttempts.MaxAttempts
    if (totals.ledger == ledger || !mayHaveMore) {
      Future.successful(compared(totals))
    } else {
      log.info(
        s"${service.hostPort} has blocks of ${generation.id} that nobody accounts for: " +
          s"${totals.segments} where ${ledger.segments} are known. The others are not read.")
      client.retainAttempts(service, generation.id, attempts).map(compared)
    }
  }

  /** What the service shows, if all of that may be read; or why nothing of it may. */
  private def judge(
      generation: Generation,
      service: ServiceLocation,
      outcome: Try[Verdict]): Verdict =
    outcome match {
      case Failure(failure) =>
        directory.failed(service, failure)
        log.warn(s"${service.hostPort} did not finalize ${generation.id}: ${failure.getMessage}")
        Left(Reason.NotFinalized)
      case Success(verdict) => verdict
    }

  private def finalized(
      generation: Generation,
      services: Seq[ServiceLocation],
      verdicts: Seq[Verdict],
      tookMs: Long): Unit = {
    val trusted = verdicts.collect { case Right(totals) => totals }
    val absent = verdicts.zipWithIndex.collect { case (Left(reason), index) => index -> reason }
    val silent = absent.count(_._2 == Reason.NotFinalized)
    report.finalized(generation.id, trusted, silent, tookMs)
    decide(
      generation,
      if (trusted.nonEmpty) {
        val places = services.zip(verdicts).map { case (service, verdict) =>
          if (verdict.isRight) service else null
        }
        val why = absent.map { case (index, reason) => index -> reason.code }
        MergePlan(generation.numPartitions, places.toArray, why.toMap)
      } else if (silent < absent.size) {
        NotMerged(Reason.LedgerMismatch.code)
      } else {
        NotMerged(Reason.NotFinalized.code)
      })
  }
}

private object MergeFinalizer {
  type Verdict = Either[Reason, FinalizeMergeReply]
}
