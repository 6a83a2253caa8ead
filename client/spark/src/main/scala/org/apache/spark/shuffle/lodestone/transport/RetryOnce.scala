// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import scala.concurrent.Future
import scala.util.{Failure, Success, Try}

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.wire.RefusedException

/**
 * Sends a request once more if the class of its failure says so, and reports the outcome to the
 * penalty box. (docs/protocol.md, section 4: every request may be sent again.)
 */
private[transport] final class RetryOnce(health: ServiceHealth) {
  import RetryOnce._

  /** @param flaw what is wrong with an answer */
  def apply[T](service: HostPort, flaw: T => Option[FailureClass] = noFlaw[T])(
      send: () => Future[T]): Future[T] = trySend(service, flaw, send, MaxRetries)

  /** Returns the pause before the request is sent again, or None if it is not. */
  def pauseMs(service: HostPort, failure: FailureClass, retriesLeft: Int): Option[Long] =
    failure.action.retryAfterMs.filter(_ => retriesLeft > 0 && !health.isSuspect(service))

  def settled(service: HostPort, outcome: Try[_]): Unit = outcome match {
    case Success(_) | Failure(_: RefusedException) => health.answered(service)
    case Failure(failure) => if (FailureClass.of(failure).action.penalty) health.failed(service)
  }

  private def trySend[T](
      service: HostPort,
      flaw: T => Option[FailureClass],
      send: () => Future[T],
      retriesLeft: Int): Future[T] =
    send().transformWith { outcome =>
      val wrong = outcome match {
        case Success(answer) => flaw(answer)
        case Failure(failure) => Some(FailureClass.of(failure))
      }
      wrong.flatMap(pauseMs(service, _, retriesLeft)) match {
        // Not on the thread of a connection that is failing at this moment.
        case Some(ms) =>
          RequestTimer.pause(ms).flatMap { _ =>
            trySend(service, flaw, send, retriesLeft - 1)
          }(SameThread)
        case None =>
          settled(service, outcome)
          Future.fromTry(outcome)
      }
    }(SameThread)
}

private[transport] object RetryOnce {

  /** After two failures, the originals cost less than another retry. */
  val MaxRetries = 1

  private def noFlaw[T]: T => Option[FailureClass] = _ => None
}
