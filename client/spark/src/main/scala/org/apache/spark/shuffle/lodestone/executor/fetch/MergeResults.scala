// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.{LinkedHashMap, Map => JMap}

import scala.concurrent.Future
import scala.util.Failure

import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{GetReadPlan, PlanAnswer, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.SameThread

/**
 * What came of each shuffle, asked once per executor and stage attempt: a repeated attempt asks
 * again, since the merged data may have proved wrong in between.
 */
private[fetch] final class MergeResults(driver: DriverLink) {
  import MergeResults._

  private val answers = new LinkedHashMap[Key, Future[PlanAnswer]](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Key, Future[PlanAnswer]]): Boolean =
      size() > MaxEntries
  }

  def of(generation: ShuffleGeneration, stageId: Int, attempt: Int): Future[PlanAnswer] = {
    val key = Key(generation, stageId, attempt)
    answers.synchronized {
      answers.computeIfAbsent(
        key,
        _ =>
          driver.readPlan(GetReadPlan(generation.shuffleId, generation.number)).andThen {
            case Failure(_) =>
              forget(key)
          }(SameThread))
    }
  }

  def forget(shuffleId: Int): Unit = answers.synchronized {
    answers.keySet().removeIf(_.generation.shuffleId == shuffleId)
    ()
  }

  private def forget(key: Key): Unit = answers.synchronized {
    answers.remove(key)
    ()
  }
}

private[fetch] object MergeResults {

  /** Stage attempts that one executor reads for at about the same time. */
  private val MaxEntries = 256

  private final case class Key(generation: ShuffleGeneration, stageId: Int, attempt: Int)
}
