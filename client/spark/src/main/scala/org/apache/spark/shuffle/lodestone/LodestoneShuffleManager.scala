// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.{ShuffleDependency, SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.plan.{ReadSize, TaskHosts}
import org.apache.spark.shuffle.sort.SortShuffleManager

/** The value of `spark.shuffle.manager`: Spark's own manager, with Lodestone added. */
private[spark] final class LodestoneShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends SortShuffleManager(conf) {
  private val core = new ShuffleCore(conf, isDriver, Sparks)

  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = core.register(shuffleId, dependency)

  override def getWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    core.writer(handle, mapId, context, metrics)

  override def getReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = {
    val range = ReadRange(startMapIndex, endMapIndex, startPartition, endPartition)
    core.reader(handle, range, context, metrics)
  }

  /** Returns the hosts where the tasks of these reads of a shuffle should run, if they gain. */
  private[lodestone] def hostsFor(shuffleId: Int, reads: Seq[ReadSize]): Option[TaskHosts] =
    core.hostsFor(shuffleId, reads)

  override def unregisterShuffle(shuffleId: Int): Boolean = {
    core.removed(shuffleId)
    super.unregisterShuffle(shuffleId)
  }

  override def stop(): Unit = {
    core.stop()
    super.stop()
  }

  /** Spark's own manager. */
  private object Sparks extends InnerShuffles {
    override def register[K, V, C](
        shuffleId: Int,
        dependency: ShuffleDependency[K, V, C]): BaseShuffleHandle[K, V, C] =
      LodestoneShuffleManager.super
        .registerShuffle(shuffleId, dependency)
        .asInstanceOf[BaseShuffleHandle[K, V, C]]

    override def writer[K, V](
        handle: ShuffleHandle,
        mapId: Long,
        context: TaskContext,
        metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
      LodestoneShuffleManager.super.getWriter(handle, mapId, context, metrics)

    override def reader[K, C](
        handle: ShuffleHandle,
        range: ReadRange,
        context: TaskContext,
        metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
      LodestoneShuffleManager.super.getReader(
        handle,
        range.startMapIndex,
        range.endMapIndex,
        range.startPartition,
        range.endPartition,
        context,
        metrics)

    override def resolver: IndexShuffleBlockResolver = shuffleBlockResolver
  }
}
