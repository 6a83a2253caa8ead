// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import org.apache.gluten.config.{HashShuffleWriterType, SortShuffleWriterType}

import org.apache.spark.{ShuffleDependency, SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.{Engine, LodestoneShuffles, ShuffleCore}
import org.apache.spark.shuffle.lodestone.engine.FramePush
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.executor.push.remote.PushingWriter
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{FrameCodec, NativeFrames}
import org.apache.spark.shuffle.sort.{ColumnarShuffleHandle, ColumnarShuffleManager}

/**
 * The value of `spark.shuffle.manager` for applications with Gluten and its backend Velox: Gluten's
 * own manager, with Lodestone added. In mode remote Gluten's native code pushes its frames while
 * map tasks run. In the other modes its shuffles are left to it. Spark's shuffles are handled as by
 * `LodestoneShuffleManager`.
 *
 * Gluten plans columnar shuffles if the class that `spark.shuffle.manager` names is a
 * `SupportsColumnarShuffle`, as its own manager is. It looks for `celeborn` in the name as well,
 * and would then choose frames that only Celeborn's reader decodes.
 */
private[spark] final class LodestoneGlutenShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends GlutenShuffles(conf)
    with LodestoneShuffles {
  GlutenLinkage.check()
  if (isDriver) GlutenDefaults(conf)

  override protected val core =
    new ShuffleCore(conf, isDriver, below(Some(Gluten), shuffleBlockResolver))

  override protected def read[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    (core.blocks(handle, range, context, metrics), handle) match {
      case (Some(blocks), own: BaseShuffleHandle[K @unchecked, _, C @unchecked]) =>
        new GlutenReader[K, C](own.dependency, blocks, context)
      case _ => super.read(handle, range, context, metrics)
    }
}

/** Gluten's manager, whose handles say in addition which shuffles can be pushed. */
private[gluten] abstract class GlutenShuffles(conf: SparkConf)
    extends ColumnarShuffleManager(conf) {

  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = dependency match {
    case columnar: ColumnarShuffleDependency[_, _, _]
        if !Gluten.pushes.contains(columnar.shuffleWriterType) =>
      new UnpushedHandle[K, V](
        shuffleId,
        dependency.asInstanceOf[ShuffleDependency[K, V, V]])
    case _ => super.registerShuffle(shuffleId, dependency)
  }
}

/** A shuffle whose native writer only writes local files: that of graphics processors. */
private[gluten] final class UnpushedHandle[K, V](
    shuffleId: Int,
    dependency: ShuffleDependency[K, V, V])
    extends ColumnarShuffleHandle[K, V](shuffleId, dependency)

private[gluten] object Gluten extends Engine {

  /**
   * The native writers whose frames can be pushed. A frame of the first is a batch, without the
   * dictionaries that local files may have. A frame of the second is one compressed stream of whole
   * rows. Neither needs another frame, and the usual readers of Gluten decode frames of many maps,
   * one after another.
   */
  val pushes: Set[Any] = Set(HashShuffleWriterType, SortShuffleWriterType)

  override val withFrames: Set[Class[_]] = Set.empty
  override val pushed: Set[Class[_]] = Set(classOf[ColumnarShuffleHandle[_, _]])
  override val handles: Set[Class[_]] = pushed + classOf[UnpushedHandle[_, _]]

  override val codec: FrameCodec = new NativeFrames(s"gluten-${GlutenLinkage.Release}")

  override def pushing[K, V](
      handle: BaseShuffleHandle[K, V, _],
      push: FramePush,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = {
    val dependency = handle.dependency.asInstanceOf[ColumnarShuffleDependency[K, V, _]]
    new PushingWriter[K, V](push)({ records =>
      new GlutenMapTask(dependency, push, context, metrics).write(records)
    })
  }
}
