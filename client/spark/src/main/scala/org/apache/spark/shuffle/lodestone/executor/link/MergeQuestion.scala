// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.plan.{MapSample, NoPlan, PlanAnswer}

/** The question whether and where the map outputs of one generation are merged. */
private[link] final class MergeQuestion {
  // The map outputs so far. Whoever asks adds the read time of the disk.
  private var seen = MapSample(maps = 0, blocks = 0, bytes = 0, diskReadMicros = 0)
  private var asked: Option[Future[PlanAnswer]] = None
  private var askAgainAt = 0

  /**
   * Counts one more map output, and returns the driver's answer. The driver is asked once. A
   * question that failed is asked again for the next map. A question that was answered "not for
   * now" is asked again when twice as many maps are known: the first maps may differ from the
   * others.
   */
  def apply(lengths: Array[Long])(ask: MapSample => Future[PlanAnswer])
      : Future[PlanAnswer] = synchronized {
    seen = seen.and(lengths)
    val answer = asked.filterNot(isOver).getOrElse {
      askAgainAt = 2 * seen.maps
      ask(seen)
    }
    asked = Some(answer)
    answer
  }

  private def isOver(answer: Future[PlanAnswer]): Boolean = answer.value.exists {
    case Success(NoPlan(_, true)) => seen.maps >= askAgainAt
    case Success(_) => false
    case Failure(_) => true
  }
}
