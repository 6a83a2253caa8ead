// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.auron.shuffle

import java.io.InputStream

import org.apache.spark.{MapOutputTracker, SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleReadMetricsReporter}
import org.apache.spark.storage.{
  BlockId,
  BlockManager,
  BlockManagerId,
  ShuffleBlockFetcherIterator
}

/**
 * Stands for the class of this name of Apache Auron (releases 7.0.0, 8.0.0; commit 4b0a3451,
 * spark-extension-shims-spark/src/main/scala/org/apache/spark/sql/execution/auron/shuffle): Spark's
 * fetch, without a codec.
 */
class AuronBlockStoreShuffleReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    blocksByAddress: Iterator[(BlockManagerId, Seq[(BlockId, Long, Int)])],
    context: TaskContext,
    readMetrics: ShuffleReadMetricsReporter,
    blockManager: BlockManager,
    mapOutputTracker: MapOutputTracker,
    shouldBatchFetch: Boolean)
    extends AuronBlockStoreShuffleReaderBase[K, C](handle, context) {

  override def readBlocks(): Iterator[InputStream] = {
    val conf = SparkEnv.get.conf
    new ShuffleBlockFetcherIterator(
      context,
      blockManager.blockStoreClient,
      blockManager,
      mapOutputTracker,
      blocksByAddress,
      (_, stream) => stream,
      conf.get(config.REDUCER_MAX_SIZE_IN_FLIGHT) * 1024 * 1024,
      conf.get(config.REDUCER_MAX_REQS_IN_FLIGHT),
      conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS),
      conf.get(config.MAX_REMOTE_BLOCK_SIZE_FETCH_TO_MEM),
      conf.get(config.SHUFFLE_MAX_ATTEMPTS_ON_NETTY_OOM),
      conf.get(config.SHUFFLE_DETECT_CORRUPT),
      conf.get(config.SHUFFLE_DETECT_CORRUPT_MEMORY),
      false,
      "",
      readMetrics,
      shouldBatchFetch && dep.serializer.supportsRelocationOfSerializedObjects)
      .toCompletionIterator.map(_._2)
  }
}
