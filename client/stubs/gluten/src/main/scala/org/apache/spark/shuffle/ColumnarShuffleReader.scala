// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle

import org.apache.gluten.vectorized.ColumnarBatchSerializerInstance

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockFetcherIterator}

/**
 * Stands for backends-velox/src/main/scala/org/apache/spark/shuffle/ColumnarShuffleReader.scala of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
class ColumnarShuffleReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    blocksByAddress: Iterator[(BlockManagerId, collection.Seq[(BlockId, Long, Int)])],
    context: TaskContext,
    readMetrics: ShuffleReadMetricsReporter)
    extends ShuffleReader[K, C] {

  override def read(): Iterator[Product2[K, C]] = {
    val env = SparkEnv.get
    val streams = new ShuffleBlockFetcherIterator(
      context,
      env.blockManager.blockStoreClient,
      env.blockManager,
      env.mapOutputTracker,
      blocksByAddress,
      (_, bytes) => bytes,
      env.conf.get(config.REDUCER_MAX_SIZE_IN_FLIGHT) << 20,
      env.conf.get(config.REDUCER_MAX_REQS_IN_FLIGHT),
      env.conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS),
      env.conf.get(config.MAX_REMOTE_BLOCK_SIZE_FETCH_TO_MEM),
      env.conf.get(config.SHUFFLE_MAX_ATTEMPTS_ON_NETTY_OOM),
      env.conf.get(config.SHUFFLE_DETECT_CORRUPT),
      env.conf.get(config.SHUFFLE_DETECT_CORRUPT_MEMORY),
      env.conf.get(config.SHUFFLE_CHECKSUM_ENABLED),
      env.conf.get(config.SHUFFLE_CHECKSUM_ALGORITHM),
      readMetrics,
      false).toCompletionIterator
    handle.dependency.serializer
      .newInstance()
      .asInstanceOf[ColumnarBatchSerializerInstance]
      .deserializeStreams(streams)
      .asKeyValueIterator
      .map { record =>
        readMetrics.incRecordsRead(1)
        record.asInstanceOf[Product2[K, C]]
      }
  }
}
