// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import org.apache.spark.{SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.{Engine, LodestoneShuffles, ShuffleCore}
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.sql.comet.execution.shuffle._

/**
 * The value of `spark.shuffle.manager` for applications with Comet: Comet's own manager, with
 * Lodestone added. Lodestone merges the frames of Comet's native code, or keeps them at services.
 * It handles Spark's shuffles like `LodestoneShuffleManager`.
 */
private[spark] final class LodestoneCometShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends CometShuffleManager(conf)
    with LodestoneShuffles {
  CometCodec.checkRelease()
  if (isDriver) {
    CometSessions.addTo(conf)
    CometDefaults(conf)
  }

  override protected val core =
    new ShuffleCore(conf, isDriver, below(Some(Comet), shuffleBlockResolver))

  override protected def read[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = {
    val reader = super.read[K, C](handle, range, context, metrics)
    (handle, reader) match {
      case (_, comets: CometBlockStoreShuffleReader[K @unchecked, C @unchecked]) => comets
      case (own: BaseShuffleHandle[K @unchecked, _, C @unchecked], _)
          if own.dependency.isInstanceOf[CometShuffleDependency[_, _, _]] =>
        new FrameReader(own, reader, context, metrics)
      case _ => reader
    }
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
