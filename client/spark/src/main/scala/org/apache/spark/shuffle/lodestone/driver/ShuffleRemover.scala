// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.services.Removals

/** Ends generations and shuffles: answers all that wait, and makes the services remove the data. */
private[driver] final class ShuffleRemover(
    shuffles: ShuffleTable,
    removals: Removals,
    report: DriverReport) {

  /** Ends a shuffle that Spark has unregistered. */
  def removed(shuffleId: Int): Unit = {
    shuffles.remove(shuffleId).flatMap(_.generation).foreach(end(_, Reason.UnknownShuffle))
    report.removed(shuffleId)
  }

  /** Ends a generation that a newer one replaces: Spark runs the whole stage again. */
  def replaced(generation: Generation): Unit = end(generation, Reason.PushStale)

  private def end(generation: Generation, reason: Reason): Unit = {
    generation.removed = true
    generation.merging.foreach(_.services.foreach(removals(_, generation.id)))
    generation.plan.decide(NotMerged(reason.code))
    generation.result.decide(NotMerged(reason.code))
  }
}
