// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import org.apache.spark.{ShuffleDependency, SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.{Engine, InnerShuffles, ShuffleCore}
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.sql.comet.execution.shuffle._

/**
 * The value of `spark.shuffle.manager` for applications with Comet: Comet's own manager, with
 * Lodestone added. Lodestone merges the frames of Comet's native code, or keeps them at services.
 * It handles Spark's shuffles like `LodestoneShuffleManager`.
 */
private[spark] final class LodestoneCometShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends CometShuffleManager(conf) {
  CometCodec.checkRelease()
  if (isDriver) {
    CometSessions.addTo(conf)
    CometDefaults(conf)
  }

  private val core = new ShuffleCore(conf, isDriver, Comets)

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
    val reader = core.reader[K, C](handle, range, context, metrics)
    (handle, reader) match {
      case (_, comets: CometBlockStoreShuffleReader[K @unchecked, C @unchecked]) => comets
      case (own: BaseShuffleHandle[K @unchecked, _, C @unchecked], _)
          if own.dependency.isInstanceOf[CometShuffleDependency[_, _, _]] =>
        new FrameReader(own, reader, context, metrics)
      case _ => reader
    }
  }

  override def unregisterShuffle(shuffleId: Int): Boolean = {
    core.removed(shuffleId)
    super.unregisterShuffle(shuffleId)
  }

  override def stop(): Unit = {
    core.stop()
    super.stop()
  }

  /** Comet's own manager, which knows Spark's as well. */
  private object Comets extends InnerShuffles {
    override def register[K, V, C](
        shuffleId: Int,
        dependency: ShuffleDependency[K, V, C]): BaseShuffleHandle[K, V, C] =
      LodestoneCometShuffleManager.super
        .registerShuffle(shuffleId, dependency)
        .asInstanceOf[BaseShuffleHandle[K, V, C]]

    override def writer[K, V](
        handle: ShuffleHandle,
        mapId: Long,
        context: TaskContext,
        metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
      LodestoneCometShuffleManager.super.getWriter(handle, mapId, context, metrics)

    override def reader[K, C](
        handle: ShuffleHandle,
        range: ReadRange,
        context: TaskContext,
        metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
      LodestoneCometShuffleManager.super.getReader(
        handle,
        range.startMapIndex,
        range.endMapIndex,
        range.startPartition,
        range.endPartition,
        context,
        metrics)

    override def resolver: IndexShuffleBlockResolver = shuffleBlockResolver

    override def engine: Option[Engine] = Some(Comet)
  }
}

private object Comet extends Engine {

  /** Its writers in Java encrypt, and one of them does not tell the lengths of blocks. */
  override val withFrames: Set[Class[_]] = Set(classOf[CometNativeShuffleHandle[_, _]])

  override val handles: Set[Class[_]] = withFrames ++ Set[Class[_]](
    classOf[CometBypassMergeSortShuffleHandle[_, _]],
    classOf[CometSerializedShuffleHandle[_, _]])

  override val codec: CometCodec.type = CometCodec
}

/** Comet casts each reader to this class of its own. The blocks come from `frames`. */
private final class FrameReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    frames: ShuffleReader[K, C],
    context: TaskContext,
    metrics: ShuffleReadMetricsReporter)
    extends CometBlockStoreShuffleReader[K, C](handle, Iterator.empty, context, metrics) {
  override def read(): Iterator[Product2[K, C]] = frames.read()
}
