// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import org.apache.spark.{ShuffleDependency, SparkConf, SparkEnv, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.push.records.{KeptOutputs, LocalFramePush}
import org.apache.spark.shuffle.sort.SortShuffleManager
import org.apache.spark.sql.execution.auron.shuffle._

/**
 * Auron's shuffles on executors, without Lodestone, and Spark's own ones as Spark handles them. The
 * plan lets native code push in any case, since the class of the manager alone decides that. Here
 * it pushes to a local file.
 */
private[auron] abstract class LocalAuronShuffles(conf: SparkConf)
    extends AuronRssShuffleManagerBase(conf) {
  private val sparks = new SortShuffleManager(conf)
  private val kept = new KeptOutputs(sparks.shuffleBlockResolver)

  /** Spark's interface has no bound that says "all". */
  private val AllMaps = Int.MaxValue

  override def shuffleBlockResolver: IndexShuffleBlockResolver = sparks.shuffleBlockResolver

  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = dependency match {
    case _: AuronShuffleDependency[_, _, _] => new AuronHandle(shuffleId, dependency)
    case _ => sparks.registerShuffle(shuffleId, dependency)
  }

  override def getAuronRssShuffleWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): AuronRssShuffleWriterBase[K, V] = {
    val dependency = handle.asInstanceOf[BaseShuffleHandle[K, V, _]].dependency
    kept.add(handle.shuffleId, mapId)
    val push = new LocalFramePush(dependency, mapId, shuffleBlockResolver, context, metrics)
    new AuronWriter[K, V](push, metrics)
  }

  override def getAuronRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): AuronRssShuffleReaderBase[K, C] = {
    val env = SparkEnv.get
    val blocks = env.mapOutputTracker.getMapSizesByExecutorId(
      handle.shuffleId,
      startMapIndex,
      endMapIndex,
      startPartition,
      endPartition)
    val own = handle.asInstanceOf[BaseShuffleHandle[K, _, C]]
    val reader = new AuronBlockStoreShuffleReader[K, C](
      own,
      blocks.map { case (address, of) => (address, of.toSeq) },
      context,
      metrics,
      env.blockManager,
      env.mapOutputTracker,
      SortShuffleManager.canUseBatchFetch(startPartition, endPartition, context))
    new AuronReader[K, C](own, context, reader.readBlocks())
  }

  override def getAuronRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): AuronRssShuffleReaderBase[K, C] =
    getAuronRssShuffleReader(handle, 0, AllMaps, startPartition, endPartition, context, metrics)

  override def getRssShuffleWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    sparks.getWriter(handle, mapId, context, metrics)

  override def getRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    sparks.getReader(
      handle,
      startMapIndex,
      endMapIndex,
      startPartition,
      endPartition,
      context,
      metrics)

  override def getRssShuffleReader[K, C](
      handle: ShuffleHandle,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    getRssShuffleReader(handle, 0, AllMaps, startPartition, endPartition, context, metrics)

  override def unregisterShuffle(shuffleId: Int): Boolean = {
    kept.removed(shuffleId)
    sparks.unregisterShuffle(shuffleId)
  }

  override def stop(): Unit = sparks.stop()
}
