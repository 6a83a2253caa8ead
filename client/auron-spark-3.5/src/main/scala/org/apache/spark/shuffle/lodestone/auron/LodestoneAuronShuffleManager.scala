// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import org.apache.spark.{ShuffleDependency, SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.{Engine, LodestoneShuffles, ShuffleCore}
import org.apache.spark.shuffle.lodestone.engine.FramePush
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{FrameCodec, NativeFrames}

/**
 * The value of `spark.shuffle.manager` for applications with Auron. In mode remote, native code
 * pushes its frames to services while a map task runs. It handles Spark's shuffles like
 * `LodestoneShuffleManager`.
 *
 * Auron plans its own shuffles if the name of the class has `AuronShuffleManager` in it
 * (`AuronConverters.supportedShuffleManagers`), and lets native code push if the manager is an
 * `AuronRssShuffleManagerBase` (`ShimsImpl.getShuffleWriteExec`).
 */
private[spark] final class LodestoneAuronShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends LocalAuronShuffles(conf)
    with LodestoneShuffles {
  if (isDriver) AuronDefaults(conf)

  override protected val core =
    new ShuffleCore(conf, isDriver, below(Some(Auron), shuffleBlockResolver))

  override protected def read[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    core.blocks(handle, range, context, metrics) match {
      case Some(blocks) =>
        AuronReader[K, C](handle.asInstanceOf[BaseShuffleHandle[K, _, C]], context, blocks)
      case None => super.read(handle, range, context, metrics)
    }
}

/** A shuffle of Auron's native code. */
private[auron] final class AuronHandle[K, V, C](id: Int, of: ShuffleDependency[K, V, C])
    extends BaseShuffleHandle[K, V, C](id, of)

private object Auron extends Engine {
  override val pushed: Set[Class[_]] = Set(classOf[AuronHandle[_, _, _]])
  override val handles: Set[Class[_]] = pushed
  override val withFrames: Set[Class[_]] = Set.empty

  /** The frames are the same since Auron 7. */
  override val codec: FrameCodec = new NativeFrames("auron-7")

  override def pushing[K, V](
      handle: BaseShuffleHandle[K, V, _],
      push: FramePush,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    new AuronWriter[K, V](push, metrics)
}
