// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.frames

import java.io.DataInputStream

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkConf, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.Engine
import org.apache.spark.shuffle.lodestone.engine.{EngineReader, FakeNative, FramePush}
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.executor.push.remote.PushingWriter

/** The shuffle manager of an engine whose native code pushes [[TestFrames]] while a task runs. */
private[lodestone] final class PushingEngineShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends FrameShuffles(conf, isDriver, PushingEngine) {

  override protected def read[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    core.blocks(handle, range, context, metrics) match {
      case Some(blocks) => new NativeReader[K, C](blocks)
      case None => super.read(handle, range, context, metrics)
    }
}

private[lodestone] object PushingEngine extends Engine {

  /** A text that native code fails at. */
  val Poison = "poison"
  private val Threads = 3
  override val withFrames: Set[Class[_]] = Set.empty
  override val pushed: Set[Class[_]] = Set(classOf[FrameHandle[_, _, _]])
  override val handles: Set[Class[_]] = pushed + classOf[OwnWayHandle[_, _, _]]
  override val codec: FrameCodec = new NativeFrames("pushed-1")

  override def pushing[K, V](
      handle: BaseShuffleHandle[K, V, _],
      push: FramePush,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = {
    val partitioner = handle.dependency.partitioner
    new PushingWriter[K, V](push)({ rows =>
      val frames = rows.map { row =>
        metrics.incRecordsWritten(1)
        val text = row._2.toString
        val partition = if (text == Poison) -1 else partitioner.getPartition(row._1)
        new FakeNative.Frame(partition, TestFrames.of(text))
      }
      FakeNative.pushAll(push, frames.asJava, Threads, mapId)
    })
  }
}

/** Decodes on a thread that is not the task's. */
private final class NativeReader[K, C](blocks: EngineReader) extends ShuffleReader[K, C] {
  override def read(): Iterator[Product2[K, C]] = {
    val texts = FakeNative.onOwnThread(() => decoded())
    texts.iterator.map(text => (0, text)).asInstanceOf[Iterator[Product2[K, C]]]
  }

  private def decoded(): Seq[String] = {
    val texts = ArrayBuffer.empty[String]
    while (blocks.hasNext) {
      val in = new DataInputStream(blocks.next().frames())
      while (in.read() >= 0) {
        val text = new Array[Byte](in.readInt())
        in.readFully(text)
        texts += new String(text, "UTF-8")
      }
    }
    blocks.addRows(texts.size.toLong)
    texts.toSeq
  }
}
