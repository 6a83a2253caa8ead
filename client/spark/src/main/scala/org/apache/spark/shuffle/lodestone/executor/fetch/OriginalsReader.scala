// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.rows.SqlRows
import org.apache.spark.shuffle.lodestone.plan.ShuffleEligibility
import org.apache.spark.shuffle.sort.SortShuffleManager

/**
 * Reads originals alone, with Spark's own client. It fetches as Spark's `BlockStoreShuffleReader` does,
 * and makes records of the streams in our way.
 *
 * @param mayBatch
 *   whether blocks of one map may be fetched as one: not where those who know how many records are in them
 *   know it of each block only
 */
private[fetch] final class OriginalsReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    range: ReadRange,
    originals: FetchPlan.Blocks,
    check: OriginalsCheck,
    mayBatch: Boolean,
    context: TaskContext,
    metrics: ShuffleReadMetricsReporter)
    extends ShuffleReader[K, C] {

  override def read(): Iterator[Product2[K, C]] = {
    val env = SparkEnv.get
    val records = new ShuffleRecords(handle, context, metrics)
    val client = env.blockManager.blockStoreClient
    val tracker = env.mapOutputTracker
    val blocks =
      BlockFetch(client, tracker, originals, inBatches, hasOriginals = true, context, metrics)
    records.asked(records.of(blocks, check))
  }

  /** What Spark asks for it. */
  private def inBatches: Boolean =
    mayBatch && SortShuffleManager.canUseBatchFetch(
      range.startPartition,
      range.endPartition,
      context) &&
      ShuffleEligibility.concatenationObstacle(SparkEnv.get.conf, handle.dependency).isEmpty
}

private[fetch] object OriginalsReader {

  /** Whether it takes less than Spark's own: of rows of exchanges, whose ends are told apart here. */
  def gains(handle: BaseShuffleHandle[_, _, _]): Boolean =
    SqlRows.areOf(handle.dependency.serializer)
}
