// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.services.Removals

/** Ends generations and shuffles: whoever waits is answered, and the services let go. */
private[driver] final class ShuffleRemover(
    shuffles: ShuffleTable,
    removals: Removals,
    report: DriverReport) {

  /** Spark unregistered the shuffle. */
  def removed(shuffleId: Int): Unit = {
    shuffles.remove(shuffleId).flatMap(_.generation).foreach(end(_, Reason.UnknownShuffle))
    report.removed(shuffleId)
  }

  /** The stage is run again as a whole: a newer generation takes the place of this one. */
  def replaced(generation: Generation): Unit = end(generation, Reason.PushStale)

  private def end(generation: Generation, reason: Reason): Unit = {
    generation.removed = true
    generation.merging.foreach(_.services.foreach(removals(_, generation.id)))
    generation.plan.decide(NotMerged(reason.code))
    generation.result.decide(NotMerged(reason.code))
  }
}
