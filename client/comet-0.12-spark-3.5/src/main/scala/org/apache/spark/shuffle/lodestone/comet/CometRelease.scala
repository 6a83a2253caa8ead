// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import java.io.InputStream

import org.apache.spark.{SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.engine.{EngineReader, FramePush}
import org.apache.spark.sql.comet.execution.shuffle._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.vectorized.ColumnarBatch

/** What Comet 0.12 has in its own way. Its native code writes local files only. */
private[comet] object CometRelease {
  final val Release = "0.12"

  final val SparkLine = "3.5"

  /** What the keys of its shuffles begin with. */
  val ShuffleKeys = "spark.comet.exec.shuffle"

  val pushes = false

  /** Called on the driver, before there is a session. */
  def prepare(conf: SparkConf): Unit = CometSessions.addTo(conf)

  /** @param blocks of no use here: this release has no native reader */
  def reader[K, C](
      handle: BaseShuffleHandle[K, _, C],
      records: => ShuffleReader[K, C],
      blocks: => Option[EngineReader],
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = records match {
    case comets: CometBlockStoreShuffleReader[K, C] => comets
    case frames => new FrameReader(handle, frames, context, metrics)
  }

  def pushing[K, V](
      handle: BaseShuffleHandle[K, V, _],
      push: FramePush,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    throw new UnsupportedOperationException(s"Comet $Release does not push")
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

/**
 * The batches of a stream of frames. Without the task, Comet's decoder adds no listener to it: a
 * task may read thousands of blocks, and all listeners stay until it ends.
 */
private[comet] final class CometBatches(frames: InputStream, decodeTime: SQLMetric)
    extends Iterator[ColumnarBatch] {
  private val batches = NativeBatchDecoderIterator(frames, null, decodeTime)

  override def hasNext: Boolean = batches.hasNext

  override def next(): ColumnarBatch = batches.next()

  def close(): Unit = batches.close()
}
