// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.driver.ShuffleEligibility
import org.apache.spark.shuffle.lodestone.wire.rows.SqlRows
import org.apache.spark.shuffle.sort.SortShuffleManager

/**
 * Reads originals alone, with Spark's own client. It fetches as Spark's `BlockStoreShuffleReader` does,
 * and makes records of the streams in our way.
 *
 * @param counted
 *   by which each block is checked
 */
private[fetch] final class OriginalsReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    range: ReadRange,
    originals: FetchPlan.Blocks,
    counted: Option[BlockRecords],
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
    val check = new RecordsCheck.OfOriginals(counted.getOrElse(BlockRecords.Unknown))
    records.asked(blocks.flatMap { case (id, stream) => check(id, records.in(stream)) })
  }

  /** What Spark asks for it; not where each block is counted. */
  private def inBatches: Boolean =
    counted.isEmpty && SortShuffleManager.canUseBatchFetch(
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
