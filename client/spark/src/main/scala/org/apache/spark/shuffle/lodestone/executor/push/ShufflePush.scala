// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.ConcurrentHashMap

import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.plan.{MapSample, NoPlan, PlanAnswer, Reason, ShufflePlan}

/** What this executor remembers of one generation while its maps are pushed. */
private[push] final class ShufflePush {
  private var seen = MapSample(0, 0, 0, DiskProbe.Unknown)
  @volatile private var planned: Option[Future[PlanAnswer]] = None
  private var askAgainAt = 0
  private val withoutService = new ConcurrentHashMap[Int, Reason]()

  @volatile var removed = false

  /**
   * For one more map output. The driver is asked once. A question that failed is asked again for the
   * next map; one that was answered "not for now" when twice as many maps are known, so that the
   * first maps need not be like the others, and few questions are asked.
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

  /** The plan, if the driver has answered with one. Does not wait for a question under way. */
  def plan: Option[ShufflePlan] =
    planned.flatMap(_.value).flatMap(_.toOption).collect {
      case plan: ShufflePlan => plan
    }

  private def isOver(answer: Future[PlanAnswer]): Boolean = answer.value.exists {
    case Success(NoPlan(_, true)) => seen.maps >= askAgainAt
    case Success(_) => false
    case Failure(_) => true
  }

  /** The shuffle does without this service. */
  def giveUp(serviceIndex: Int, reason: Reason): Unit =
    withoutService.putIfAbsent(serviceIndex, reason)

  def givenUp(serviceIndex: Int): Option[Reason] = Option(withoutService.get(serviceIndex))
}
