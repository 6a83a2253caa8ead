// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.{ShuffleDependency, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.engine.FramePush
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameCodec

/**
 * The shuffle manager that Lodestone adds to. It writes and reads the shuffles that are left to it,
 * and its handles say how map outputs are written. It knows nothing of Lodestone.
 */
private[lodestone] trait InnerShuffles {

  /** Called on the driver. */
  def register[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): BaseShuffleHandle[K, V, C]

  def writer[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V]

  def reader[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C]

  /** Finds the files of map outputs. */
  def resolver: IndexShuffleBlockResolver

  /** The engine whose manager this is. */
  def engine: Option[Engine] = None
}

/** An engine that has shuffles of its own beside Spark's. */
private[lodestone] trait Engine {

  /** The classes of the handles of its own shuffles. */
  def handles: Set[Class[_]]

  /**
   * The handles with frames: the resolver finds the files of their map outputs, and their writers
   * tell the length of each block.
   */
  def withFrames: Set[Class[_]]

  /**
   * The handles whose map tasks push their frames while they run. This is for mode remote. In the
   * other modes a shuffle is left to the engine, unless its handle is also one of [[withFrames]].
   */
  def pushed: Set[Class[_]] = Set.empty

  /** Returns the writer of a map task with a handle of [[pushed]], if services take its output. */
  def pushing[K, V](
      handle: BaseShuffleHandle[K, V, _],
      push: FramePush,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    throw new UnsupportedOperationException(s"shuffle ${handle.shuffleId} of ${codec.format.name}")

  /** One whose map tasks push needs the format only: it decodes by itself. */
  def codec: FrameCodec
}
