// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import org.apache.spark.{SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.{Engine, LodestoneShuffles, ShuffleCore}
import org.apache.spark.shuffle.lodestone.engine.FramePush
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
    CometRelease.prepare(conf)
    CometDefaults(conf)
  }

  override protected val core =
    new ShuffleCore(conf, isDriver, below(Some(Comet), shuffleBlockResolver))

  override protected def read[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = {
    def records = super.read[K, C](handle, range, context, metrics)
    handle match {
      case own: BaseShuffleHandle[K @unchecked, _, C @unchecked]
          if own.dependency.isInstanceOf[CometShuffleDependency[_, _, _]] =>
        def blocks = core.blocks(handle, range, context, metrics)
        CometRelease.reader(own, records, blocks, context, metrics)
      case _ => records
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

  override val pushed: Set[Class[_]] =
    if (CometRelease.pushes) withFrames else Set.empty[Class[_]]

  override def pushing[K, V](
      handle: BaseShuffleHandle[K, V, _],
      push: FramePush,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    CometRelease.pushing(handle, push, mapId, context, metrics)
}
