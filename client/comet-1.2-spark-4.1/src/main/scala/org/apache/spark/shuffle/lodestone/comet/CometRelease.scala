// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import java.io.InputStream

import scala.util.control.NonFatal

import org.apache.comet.{CometConf, Native}
import org.apache.comet.vector.NativeUtil
import org.apache.spark.{SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.engine.{EngineReader, FramePush}
import org.apache.spark.shuffle.lodestone.executor.push.remote.PushingWriter
import org.apache.spark.sql.comet.execution.shuffle._
import org.apache.spark.sql.comet.execution.shuffle.lodestone.{CometMapTask, CometReader}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.vectorized.ColumnarBatch

/** What Comet 1.2 has in its own way. Its native code can push frames, and read streams of them. */
private[comet] object CometRelease {
  final val Release = "1.2"

  final val SparkLine = "4.1"

  /** What the keys of its shuffles begin with. */
  val ShuffleKeys = "spark.comet.shuffle"

  val pushes = true

  /** Comet plans its shuffles because the manager extends its own. */
  def prepare(conf: SparkConf): Unit = ()

  def reader[K, C](
      handle: BaseShuffleHandle[K, _, C],
      records: => ShuffleReader[K, C],
      blocks: => Option[EngineReader],
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    new CometReader[K, C](records, blocks)

  def pushing[K, V](
      handle: BaseShuffleHandle[K, V, _],
      push: FramePush,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    handle.dependency match {
      case comets: CometShuffleDependency[K, V, _] =>
        val task = new CometMapTask(comets, mapId, context, metrics)
        val frames = new PushedFrames(push, CometCodec.decoder(comets))
        new PushingWriter[K, V](push)(rows =>
          try task.run(rows, frames)
          catch {
            // One row is larger than a frame may be: the next attempt writes a local file.
            case NonFatal(thrown) if task.isTooLarge(thrown) => push.refuse(0, Int.MaxValue)
          })
      case other =>
        throw new IllegalStateException(s"shuffle ${other.shuffleId} is not one of Comet's")
    }
}

/** The batches of a stream of frames, which Comet's native code decodes one by one. */
private[comet] final class CometBatches(frames: InputStream, decodeTime: SQLMetric)
    extends Iterator[ColumnarBatch] {
  private val arrow = new NativeUtil
  private val batches = new NativeBatchDecoderIterator(
    frames,
    decodeTime,
    new Native,
    arrow,
    CometConf.COMET_TRACING_ENABLED.get(),
    None,
    CometConf.COMET_SHUFFLE_READ_BUFFER_SIZE.get().toInt)

  override def hasNext: Boolean = batches.hasNext

  override def next(): ColumnarBatch = batches.next()

  def close(): Unit =
    try batches.close()
    finally arrow.close()
}
