// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.{MapOutputTracker, SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.network.shuffle.BlockStoreClient
import org.apache.spark.shuffle.ShuffleReadMetricsReporter
import org.apache.spark.storage.{BlockId, ShuffleBlockFetcherIterator}

/** Spark's own fetch iterator, with Spark's own settings. */
private[fetch] object BlockFetch {
  private val BytesPerMib = 1024L * 1024

  /**
   * @param inBatches
   *   whether blocks of one map that follow each other are fetched as one
   * @param hasOriginals
   *   whether original blocks may be among what is fetched: Spark computes a checksum of all bytes then,
   *   to find out where an original was damaged, and does nothing with those of chunks
   */
  def apply(
      client: BlockStoreClient,
      tracker: MapOutputTracker,
      blocks: FetchPlan.Blocks,
      inBatches: Boolean,
      hasOriginals: Boolean,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): Iterator[(BlockId, InputStream)] = {
    val env = SparkEnv.get
    val conf = env.conf
    new ShuffleBlockFetcherIterator(
      context,
      client,
      env.blockManager,
      tracker,
      blocks.iterator,
      env.serializerManager.wrapStream,
      conf.get(config.REDUCER_MAX_SIZE_IN_FLIGHT) * BytesPerMib,
      conf.get(config.REDUCER_MAX_REQS_IN_FLIGHT),
      conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS),
      conf.get(config.MAX_REMOTE_BLOCK_SIZE_FETCH_TO_MEM),
      conf.get(config.SHUFFLE_MAX_ATTEMPTS_ON_NETTY_OOM),
      conf.get(config.SHUFFLE_DETECT_CORRUPT),
      conf.get(config.SHUFFLE_DETECT_CORRUPT_MEMORY),
      hasOriginals && conf.get(config.SHUFFLE_CHECKSUM_ENABLED),
      conf.get(config.SHUFFLE_CHECKSUM_ALGORITHM),
      metrics,
      inBatches).toCompletionIterator
  }
}
