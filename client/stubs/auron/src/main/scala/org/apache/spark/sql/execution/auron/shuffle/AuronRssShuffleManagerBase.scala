// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.auron.shuffle

import org.apache.spark.{ShuffleDependency, SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.sql.execution.auron.shuffle.AuronShuffleDependency.isArrowShuffle

/**
 * Stands for the class of this name of Apache Auron (releases 7.0.0, 8.0.0; commit 4b0a3451,
 * spark-extension-shims-spark/src/main/scala/org/apache/spark/sql/execution/auron/shuffle), as it
 * is compiled for Spark 3.5.
 */
abstract class AuronRssShuffleManagerBase(_conf: SparkConf) extends ShuffleManager {
  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle

  override def unregisterShuffle(shuffleId: Int): Boolean

  def getAuronRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): AuronRssShuffleReaderBase[K, C]

  def getAuronRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): AuronRssShuffleReaderBase[K, C]

  def getRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C]

  def getRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C]

  def getAuronRssShuffleWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): AuronRssShuffleWriterBase[K, V]

  def getRssShuffleWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V]

  override def getReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = {
    if (isArrowShuffle(handle)) {
      getAuronRssShuffleReader(
        handle,
        startMapIndex,
        endMapIndex,
        startPartition,
        endPartition,
        context,
        metrics)
    } else {
      getRssShuffleReader(
        handle,
        startMapIndex,
        endMapIndex,
        startPartition,
        endPartition,
        context,
        metrics)
    }
  }

  override def getWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    if (isArrowShuffle(handle)) getAuronRssShuffleWriter(handle, mapId, context, metrics)
    else getRssShuffleWriter(handle, mapId, context, metrics)
}
