// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.plan.{PushCounts, Reason, ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, Pushes, SameThread}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.RefusedException

/**
 * The push of an attempt whose output its executor keeps. Nobody waits for it, and nothing is sent
 * to another service. A block that is refused or fails is counted with a reason, and read from the
 * original. The attempt commits at each service of which it knows what it has: with its batch, if
 * there is one only, and otherwise when all batches are settled. After that `report` gets the
 * counts, once.
 */
private[push] final class BestEffortPush(
    attempt: MapAttempt,
    first: ShufflePlan,
    client: ServiceClient,
    shuffle: ShufflePush,
    report: PushCounts => Unit)
    extends AttemptPush(attempt, first, client) with Logged {
  private val unpushed = mutable.HashMap.empty[String, Long].withDefaultValue(0L)
  private var stopped: Option[Reason] = None

  /** These blocks are not merged. */
  def failed(reason: Reason, blocks: Long): Unit = synchronized {
    if (blocks > 0) unpushed(reason.code) += blocks
  }

  /** Returns the reason for which nothing is sent to the service now. */
  def obstacle(service: ServiceLocation): Option[Reason] = {
    val isSuspect = client.isSuspect(service)
    def when(holds: Boolean, reason: Reason) = Some(reason).filter(_ => holds)
    synchronized {
      when(shuffle.removed, Reason.PushUnknown)
        .orElse(stopped)
        .orElse(shuffle.givenUp(service))
        .orElse(when(ledgers.isIncomplete(service), Reason.PushConnection))
        .orElse(when(isSuspect, Reason.PushSkippedService))
    }
  }

  /** Also a commit at a service that failed a moment ago: without it all of its blocks are lost. */
  override protected def retry[T](service: ServiceLocation, isReplicated: => Boolean)(
      send: () => Future[T]): Future[T] = send()

  override protected def concluded(
      batch: AttemptPush#Batch,
      answers: Seq[(ServiceLocation, Option[BatchAnswer])]): () => Unit = {
    answers.foreach {
      case (service, Some(answer)) => record(batch, service, answer)
      case (_, None) => failed(Reason.PushConnection, batch.segments.length.toLong)
    }
    () => batch.settle()
  }

  private def record(
      batch: AttemptPush#Batch,
      service: ServiceLocation,
      answer: BatchAnswer): Unit = {
    if (!answer.isKnown) ledgers.markIncomplete(service)
    answer.outcome match {
      case Success(reply) if reply.statuses.forall(_.isSuccess) =>
        ledgers.record(service, batch.sentBy.newest, batch.group, batch.segments)
        if (reply.isCommitted) ledgers.markCommitted(service)
      case Success(reply) =>
        val (taken, refused) = batch.segments.zip(reply.statuses).partition(_._2.isSuccess)
        ledgers.record(service, batch.sentBy.newest, batch.group, taken.map(_._1))
        refused.foreach { case (_, status) =>
          refuse(service, PushReason.of(status), FailureClass.of(status), 1)
        }
      case Failure(cause) =>
        val what = s"Blocks of $generation at ${service.hostPort}"
        logFailure(s"$what were refused", s"$what were not taken", cause)
        refuse(service, PushReason.of(cause), FailureClass.of(cause), batch.segments.length)
    }
  }

  private def refuse(
      service: ServiceLocation,
      reason: Reason,
      failure: FailureClass,
      blocks: Int): Unit = {
    failed(reason, blocks.toLong)
    failure.action.pushes match {
      case Pushes.EndMap => if (stopped.isEmpty) stopped = Some(reason)
      case Pushes.LeaveService => shuffle.giveUp(service, reason)
      case Pushes.GoOn =>
    }
  }

  override protected def broken(batch: AttemptPush#Batch, cause: Throwable): Unit =
    batch.services.foreach(ledgers.markIncomplete)

  override protected def whenSettled(): Unit = if (shuffle.removed) {
    report(counts)
  } else {
    synchronized(ledgers.incomplete).foreach(notCommitted(_, Reason.PushConnection))
    val answered = commits().map { case (service, committed) =>
      committed.transform {
        case Failure(cause) =>
          val what = s"${service.hostPort} does not show map ${attempt.mapIndex} of $generation"
          logFailure(what, what, cause)
          Success(notCommitted(service, PushReason.of(cause)))
        case Success(_) => Success(())
      }(SameThread)
    }
    implicit val sameThread: SameThread.type = SameThread
    Future.sequence(answered).onComplete(_ => report(counts))
  }

  /**
   * Readers take the originals. If only the answer to a commit was lost, they may have seen the
   * attempt, and take originals after the abort.
   */
  private def notCommitted(service: ServiceLocation, reason: Reason): Unit = {
    synchronized {
      failed(reason, ledgers.segmentsAt(service))
      ledgers.markIncomplete(service)
    }
    abortAt(Seq(service))
  }

  override protected def abortsAtSuspects: Boolean = false

  /** A block is one segment. */
  private def counts: PushCounts = synchronized {
    val blocks = ledgers.complete.map(_._2.segments).sum
    PushCounts(blocks, ledgers.completeBytes, requestCount, unpushed.toMap)
  }

  private def logFailure(refused: String, lost: String, cause: Throwable): Unit = cause match {
    case refusal: RefusedException => log.info(s"$refused: ${refusal.getMessage}")
    case other => log.warn(s"$lost: ${other.getMessage}")
  }
}
