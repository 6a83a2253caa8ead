// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.TimeUnit

import scala.concurrent.Future
import scala.util.Try

import org.apache.spark.shuffle.lodestone.LodestoneConf

/**
 * For requests to a service whose place no other can take: what fails in a way that passes is sent again,
 * until it succeeds, is refused for good, or has been tried for long enough. A service that is started
 * again after it wrote out what it had is waited for like that, as is one that is at its limit; one that
 * is drained will not come back. The time of a service that is down counts for all who wait for it: what
 * one task has waited out the next one does not wait for again.
 */
private[lodestone] final class Patience(
    limitMs: Long,
    downSinceNs: ServiceLocation => Option[Long],
    nanoClock: () => Long = () => System.nanoTime()) {
  import Patience._

  /** @param wanted whether anybody still waits for the answer */
  def apply[T](service: ServiceLocation)(wanted: () => Boolean)(
      send: () => Future[T]): Future[T] = {
    val begunNs = nanoClock()
    def attempt(pauseMs: Long): Future[T] =
      Future.fromTry(Try(send())).flatten.recoverWith {
        case failure if wanted() && isWorthIt(service, failure, begunNs) =>
          RequestTimer.pause(pauseMs).flatMap { _ =>
            attempt(math.min(pauseMs * 2, LongestPauseMs))
          }(SameThread)
      }(SameThread)
    attempt(FirstPauseMs)
  }

  /** Whether a failure now, of what was begun then, is worth another attempt. */
  def isWorthIt(service: ServiceLocation, failure: Throwable, begunNs: Long): Boolean =
    passes(failure) && hasTime(begunNs) && downSinceNs(service).forall(hasTime)

  def hasTime(begunNs: Long): Boolean =
    nanoClock() - begunNs < TimeUnit.MILLISECONDS.toNanos(limitMs)
}

private[lodestone] object Patience {
  private val FirstPauseMs = 100L
  private val LongestPauseMs = 2000L

  /** For services that may have what no other has: long enough to start them again. */
  def of(conf: LodestoneConf, client: ServiceClient): Patience =
    new Patience(6L * conf.requestTimeoutMs, client.downSinceNs)

  /** For services of which another one has a copy: to wait longer would be for nothing. */
  def whereCopied(conf: LodestoneConf, client: ServiceClient): Patience =
    new Patience(conf.requestTimeoutMs / 2, client.downSinceNs)

  def passes(failure: Throwable): Boolean = passes(FailureClass.of(failure))

  def passes(failure: FailureClass): Boolean = failure match {
    case FailureClass.Network | FailureClass.Silence | FailureClass.Straggler |
        FailureClass.ServerBusy | FailureClass.Corrupt =>
      true
    case _ => false
  }
}
