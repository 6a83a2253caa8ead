// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.sort

import org.apache.gluten.shuffle.SupportsColumnarShuffle

import org.apache.spark._
import org.apache.spark.shuffle._

/**
 * Stands for gluten-substrait/src/main/scala/org/apache/spark/shuffle/sort/
 * ColumnarShuffleManager.scala of apache/incubator-gluten, v1.6.0 (89718982). There it is public,
 * and writes for itself what is Spark's here.
 */
private[spark] class ColumnarShuffleManager(conf: SparkConf) extends ShuffleManager
    with SupportsColumnarShuffle {
  private val spark = new SortShuffleManager(conf)
  override val shuffleBlockResolver: IndexShuffleBlockResolver = spark.shuffleBlockResolver

  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = dependency match {
    case _: ColumnarShuffleDependency[_, _, _] =>
      new ColumnarShuffleHandle[K, V](
        shuffleId,
        dependency.asInstanceOf[ShuffleDependency[K, V, V]])
    case _ => spark.registerShuffle(shuffleId, dependency)
  }

  override def getWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = handle match {
    case columnar: ColumnarShuffleHandle[K @unchecked, V @unchecked] =>
      new ColumnarShuffleWriter[K, V](shuffleBlockResolver, columnar, mapId, metrics)
    case other => spark.getWriter(other, mapId, context, metrics)
  }

  override def getReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = handle match {
    case columnar: ColumnarShuffleHandle[K @unchecked, C @unchecked] =>
      val blocks = SparkEnv.get.mapOutputTracker.getMapSizesByExecutorId(
        handle.shuffleId,
        startMapIndex,
        endMapIndex,
        startPartition,
        endPartition)
      new ColumnarShuffleReader[K, C](columnar, blocks, context, metrics)
    case other =>
      spark.getReader(
        other,
        startMapIndex,
        endMapIndex,
        startPartition,
        endPartition,
        context,
        metrics)
  }

  override def unregisterShuffle(shuffleId: Int): Boolean = spark.unregisterShuffle(shuffleId)

  override def stop(): Unit = spark.stop()
}

private[spark] class ColumnarShuffleHandle[K, V](
    shuffleId: Int,
    dependency: ShuffleDependency[K, V, V])
    extends BaseShuffleHandle(shuffleId, dependency)
