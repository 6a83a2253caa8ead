// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.TimeUnit

import scala.concurrent.Future
import scala.util.Try

import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.plan.ServiceLocation

/**
 * Retries requests to a service that no other service can replace. A request that fails for a
 * transient cause is sent again, until it succeeds, is refused for good, or the time is over. So a
 * request waits for a service that restarts after it has written out its data, and for one at its
 * limit, but not for a drained service, which does not come back. The time counts from the start of
 * the request, or from the first failure of a service that is silent or cannot be reached, for all
 * requests together, if that was earlier: after one task has waited, the next one fails at once.
 */
private[lodestone] final class RetryPolicy(
    limitMs: Long,
    downSinceNs: ServiceLocation => Option[Long],
    nanoClock: () => Long = () => System.nanoTime()) {
  import RetryPolicy._

  /** @param wanted returns false when the answer is no longer needed */
  def apply[T](service: ServiceLocation)(wanted: () => Boolean)(
      send: () => Future[T]): Future[T] = {
    val begunNs = nanoClock()
    def trySend(pauseMs: Long): Future[T] =
      Future.fromTry(Try(send())).flatten.recoverWith {
        case failure if wanted() && mayRetry(service, failure, begunNs) =>
          RequestTimer.pause(pauseMs).flatMap { _ =>
            trySend(math.min(pauseMs * 2, LongestPauseMs))
          }(SameThread)
      }(SameThread)
    trySend(FirstPauseMs)
  }

  /** True if a request that began at `begunNs` and failed now may be sent again. */
  def mayRetry(service: ServiceLocation, failure: Throwable, begunNs: Long): Boolean =
    FailureClass.of(failure).action.isTransient &&
      hasTime(begunNs) && downSinceNs(service).forall(hasTime)

  def hasTime(begunNs: Long): Boolean =
    nanoClock() - begunNs < TimeUnit.MILLISECONDS.toNanos(limitMs)
}

private[lodestone] object RetryPolicy {
  private val FirstPauseMs = 100L
  private val LongestPauseMs = 2000L

  /** For services that may have the only data: long enough to restart them. */
  def of(conf: LodestoneConf, client: ServiceClient): RetryPolicy =
    new RetryPolicy(6L * conf.requestTimeoutMs, client.downSinceNs)

  /** For services whose data has a replica, so that a longer wait gains nothing. */
  def whenReplicated(conf: LodestoneConf, client: ServiceClient): RetryPolicy =
    new RetryPolicy(conf.requestTimeoutMs / 2, client.downSinceNs)
}
