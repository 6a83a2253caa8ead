// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.{ShuffleReader, ShuffleReadMetricsReporter}
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{LocalHandle, ShuffleGeneration, TaskRead}

/** The reading side of shuffles with which no service has to do. */
private[lodestone] final class LocalReads(written: WrittenRecords, driver: DriverLink) {

  /** None: nobody has counted its records, and Spark's own reader does as well. */
  def reader[K, C](
      handle: LocalHandle[K, _, C],
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): Option[ShuffleReader[K, C]] =
    if (handle.isCounted) {
      val originals = range.blocksOf(handle.shuffleId)
      val tally = new ReadTally
      val told = written.of(handle, range, context, metrics).begin()
      val check = new OriginalsCheck(told, originals, Some(tally))
      context.addTaskCompletionListener[Unit](_ => report(handle, tally))
      val inner = handle.inner
      Some(new OriginalsReader(inner, range, originals, check, mayBatch = true, context, metrics))
    } else {
      None
    }

  /** Of a shuffle that Spark has to itself there is nothing to tell, unless something was wrong. */
  private def report(handle: LocalHandle[_, _, _], tally: ReadTally): Unit = {
    val counts = tally.counts
    if (counts.fallbacks.nonEmpty) {
      val generation = ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)
      driver.report(TaskRead(generation, counts))
    }
  }
}
