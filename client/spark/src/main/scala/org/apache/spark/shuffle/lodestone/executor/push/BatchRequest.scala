// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.concurrent.Future
import scala.util.{Failure, Success, Try}

import org.apache.spark.shuffle.lodestone.transport.{FailureClass, SameThread}
import org.apache.spark.shuffle.lodestone.wire.{PushBatchReply, Refused, RefusedException, Status}

/**
 * One batch for one service. It may be sent again: segments that the service has are duplicates.
 *
 * @param push
 *   sends the batch, and calls its argument each time that no answer comes
 */
private[push] final class BatchRequest(push: (() => Unit) => Future[PushBatchReply]) {
  @volatile private var isUnanswered = false

  /** The last answer, and what `send` made of it. */
  @volatile private var last: Option[PushBatchReply] = None
  @volatile private var partial: Option[Throwable] = None

  /** Fails also if the service refuses a segment for a cause that may pass. */
  def send(): Future[PushBatchReply] = push(() => isUnanswered = true).flatMap { reply =>
    last = Some(reply)
    val refused = reply.statuses.find(!_.isSuccess)
    partial = refused.filter(status => FailureClass.of(status).action.isTransient).map {
      status =>
        new RefusedException(Refused(status, reply.incarnation, ""))
    }
    partial.fold(Future.successful(reply))(Future.failed)
  }(SameThread)

  /** Returns the state of the batch at the service, when it is not sent any more. */
  def answer(outcome: Try[PushBatchReply]): BatchAnswer = {
    val taken = last.fold(0)(_.statuses.iterator.takeWhile(_.isSuccess).size)
    val settled = outcome match {
      case Failure(cause) if partial.contains(cause) => last.fold(outcome)(Success(_))
      case _ => outcome
    }
    BatchAnswer(settled, taken, isUnanswered)
  }
}

/**
 * The last answer of a service to a batch.
 *
 * @param taken
 *   the service has this number of segments, from the first one on
 * @param isUnanswered
 *   the batch was sent at least once without an answer
 */
private[push] final case class BatchAnswer(
    outcome: Try[PushBatchReply],
    taken: Int,
    isUnanswered: Boolean) {

  /**
   * True if it is known which of the segments the service has. A refusal does not show what the
   * same batch did before; and a segment with other content is not of this attempt.
   */
  def isKnown: Boolean = outcome match {
    case Success(reply) if reply.statuses.forall(_.isSuccess) => true
    case Success(reply) => !isUnanswered && !reply.statuses.contains(Status.OtherContent)
    case Failure(_) => !isUnanswered
  }

  /** The refusal of the batch, or of its first segment that was not taken. */
  def refusal: Option[Status] = outcome match {
    case Success(reply) => reply.statuses.lift(taken)
    case Failure(refused: RefusedException) => Some(refused.status)
    case Failure(_) => None
  }
}
