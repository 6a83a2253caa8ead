// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.executor.rows.BlockEncryption
import org.apache.spark.shuffle.lodestone.plan.{
  BlockFormat,
  LocalHandle,
  OwnHandle,
  ShuffleEligibility,
  ShuffleGeneration
}
import org.apache.spark.shuffle.sort.SortShuffleManager

/**
 * Reads originals alone, with Spark's own client. It fetches as Spark's `BlockStoreShuffleReader`
 * does, and then reads records as Lodestone does.
 */
private[fetch] object OriginalsReader {

  /**
   * @param mayBatch
   *   whether blocks of one map may be fetched as one. It is false if only single blocks have known
   *   numbers of records. Engines' frames are checked block by block in any case
   */
  def apply(
      handle: OwnHandle[_, _, _],
      originals: ReadSources.BlocksByAddress,
      check: OriginalsCheck,
      mayBatch: Boolean,
      task: ReduceTask): BlockStreams = {
    val env = SparkEnv.get
    val (client, tracker) = (env.blockManager.blockStoreClient, env.mapOutputTracker)
    val encryption = BlockEncryption()
    val range = task.range
    // Spark's reader fetches in batches under the same conditions.
    def inBatches = mayBatch && !handle.format.isInstanceOf[BlockFormat.EngineFrames] &&
      SortShuffleManager.canUseBatchFetch(range.startPartition, range.endPartition, task.context) &&
      ShuffleEligibility.areOneStream(env.conf, handle.dependency)
    BlockStreams(
      check,
      () =>
        RecordReader.fetch(
          client,
          tracker,
          originals,
          handle.format,
          inBatches,
          hasOriginals = true,
          (_, block) => encryption.reading(block),
          task))
  }
}

/** Reads shuffles that use no service. */
private[lodestone] final class LocalReads(written: WrittenRecords, driver: DriverLink) {

  /** Returns None if Spark's own reader is as good: no map task counted its records. */
  def reader[K, C](
      handle: LocalHandle[K, _, C],
      task: ReduceTask): Option[ShuffleReader[K, C]] =
    if (!handle.isCounted && handle.format == BlockFormat.SparkStream) None
    else {
      val generation = ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)
      val originals = task.range.blocksOf(handle.shuffleId)
      val tally = new ReadTally
      val check = new OriginalsCheck(written.of(handle, task).begin(), originals, Some(tally))
      // The shuffle is Spark's own: the report says only what was wrong.
      task.reportTo(driver, generation, tally, always = false)
      Some(OriginalsReader(handle, originals, check, mayBatch = true, task).reader(handle, task))
    }
}
