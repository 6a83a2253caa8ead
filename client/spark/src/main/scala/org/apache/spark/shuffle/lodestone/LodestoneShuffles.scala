// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.{ShuffleDependency, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange

/** Lodestone on top of the shuffle manager that a class extends: Spark's own, or an engine's. */
private[lodestone] trait LodestoneShuffles extends ShuffleManager {

  /** Made with what [[below]] returns. */
  protected def core: ShuffleCore

  abstract override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = core.register(shuffleId, dependency)

  abstract override def getWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    core.writer(handle, mapId, context, metrics)

  abstract override def getReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = {
    val range = ReadRange(startMapIndex, endMapIndex, startPartition, endPartition)
    read(handle, range, context, metrics)
  }

  /** Returns what reads this range of a shuffle. An engine may want a reader of its own class. */
  protected def read[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    core.reader(handle, range, context, metrics)

  abstract override def unregisterShuffle(shuffleId: Int): Boolean = {
    core.removed(shuffleId)
    super.unregisterShuffle(shuffleId)
  }

  abstract override def stop(): Unit = {
    core.stop()
    super.stop()
  }

  /**
   * Returns the manager that the class extends, which knows nothing of Lodestone.
   *
   * @param files
   *   its resolver. The type that `ShuffleManager` itself has for it differs between Spark releases
   */
  protected def below(
      of: Option[Engine],
      files: => IndexShuffleBlockResolver): InnerShuffles = new InnerShuffles {
    override def register[K, V, C](
        shuffleId: Int,
        dependency: ShuffleDependency[K, V, C]): BaseShuffleHandle[K, V, C] =
      LodestoneShuffles.super
        .registerShuffle(shuffleId, dependency)
        .asInstanceOf[BaseShuffleHandle[K, V, C]]

    override def writer[K, V](
        handle: ShuffleHandle,
        mapId: Long,
        context: TaskContext,
        metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
      LodestoneShuffles.super.getWriter(handle, mapId, context, metrics)

    override def reader[K, C](
        handle: ShuffleHandle,
        range: ReadRange,
        context: TaskContext,
        metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
      LodestoneShuffles.super.getReader(
        handle,
        range.startMapIndex,
        range.endMapIndex,
        range.startPartition,
        range.endPartition,
        context,
        metrics)

    override def resolver: IndexShuffleBlockResolver = files

    override def engine: Option[Engine] = of
  }
}
