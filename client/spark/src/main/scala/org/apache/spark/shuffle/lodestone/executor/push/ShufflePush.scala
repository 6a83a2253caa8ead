// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.ConcurrentHashMap

import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.plan.{MapSample, NoPlan, PlanAnswer, Reason}
import org.apache.spark.shuffle.lodestone.plan.ServiceLocation

/** The state of one generation on this executor while its map outputs are pushed. */
private[push] final class ShufflePush {
  private var seen = MapSample(0, 0, 0, DiskProbe.Unknown)
  private var planned: Option[Future[PlanAnswer]] = None
  private var askAgainAt = 0
  private val withoutService = new ConcurrentHashMap[ServiceLocation, Reason]()

  @volatile var removed = false

  /**
   * Counts one more map output, and returns the driver's answer. The driver is asked once. A
   * question that failed is asked again for the next map. A question that was answered "not for
   * now" is asked again when twice as many maps are known: the first maps may differ from the
   * others.
   */
  def ask(lengths: Array[Long])(ask: MapSample => Future[PlanAnswer])
      : Future[PlanAnswer] = synchronized {
    seen = seen.and(lengths)
    val answer = planned.filterNot(isOver).getOrElse {
      askAgainAt = 2 * seen.maps
      ask(seen)
    }
    planned = Some(answer)
    answer
  }

  private def isOver(answer: Future[PlanAnswer]): Boolean = answer.value.exists {
    case Success(NoPlan(_, true)) => seen.maps >= askAgainAt
    case Success(_) => false
    case Failure(_) => true
  }

  /** No more blocks of the shuffle are sent to this service. */
  def giveUp(service: ServiceLocation, reason: Reason): Unit =
    withoutService.putIfAbsent(service, reason)

  def givenUp(service: ServiceLocation): Option[Reason] = Option(withoutService.get(service))
}
