// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{LocalHandle, ShuffleEligibility, ShuffleGeneration}
import org.apache.spark.shuffle.sort.SortShuffleManager

/**
 * Reads originals alone, with Spark's own client. It fetches as Spark's `BlockStoreShuffleReader`
 * does, and makes records of the streams in our way.
 *
 * @param mayBatch
 *   whether blocks of one map may be fetched as one. They may not if only the numbers of records of
 *   single blocks are known
 */
private[fetch] final class OriginalsReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    originals: ReadSources.BlocksByAddress,
    check: OriginalsCheck,
    mayBatch: Boolean,
    task: ReduceTask)
    extends RecordReader[K, C](handle, task) {

  override def read(): Iterator[Product2[K, C]] = {
    val client = env.blockManager.blockStoreClient
    val tracker = env.mapOutputTracker
    val streams =
      RecordReader.fetch(client, tracker, originals, inBatches, hasOriginals = true, task)
    asked(records(streams, check))
  }

  /** Spark's reader fetches in batches under the same conditions. */
  private def inBatches: Boolean =
    mayBatch && SortShuffleManager.canUseBatchFetch(
      task.range.startPartition,
      task.range.endPartition,
      task.context) &&
      ShuffleEligibility.concatenationObstacle(env.conf, handle.dependency).isEmpty
}

/** Reads shuffles that use no service. */
private[lodestone] final class LocalReads(written: WrittenRecords, driver: DriverLink) {

  /** None: nobody has counted the records, and Spark's own reader is as good. */
  def reader[K, C](
      handle: LocalHandle[K, _, C],
      task: ReduceTask): Option[ShuffleReader[K, C]] =
    if (!handle.isCounted) None
    else {
      val generation = ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)
      val originals = task.range.blocksOf(handle.shuffleId)
      val tally = new ReadTally
      val check = new OriginalsCheck(written.of(handle, task).begin(), originals, Some(tally))
      // The shuffle is Spark's own: the report says only what was wrong.
      task.reportTo(driver, generation, tally, always = false)
      Some(new OriginalsReader(handle.inner, originals, check, mayBatch = true, task))
    }
}
