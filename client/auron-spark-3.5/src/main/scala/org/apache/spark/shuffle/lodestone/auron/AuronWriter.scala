// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import java.nio.{ByteBuffer, ByteOrder}

import org.apache.spark.{Partition, ShuffleDependency, TaskContext}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleHandle, ShuffleWriteMetricsReporter}
import org.apache.spark.shuffle.lodestone.engine.FramePush
import org.apache.spark.shuffle.lodestone.executor.push.remote.PushingWriter
import org.apache.spark.sql.auron.NativeRDD
import org.apache.spark.sql.execution.auron.shuffle.{
  AuronRssShuffleWriterBase,
  RssPartitionWriterBase
}

/**
 * The writer of a map task of Auron. Its native code runs to its end before the attempt commits.
 * The number of a map in Auron's calls has 32 bits: it may be that of another attempt, and is of no
 * use.
 */
private[auron] final class AuronWriter[K, V](push: FramePush, metrics: ShuffleWriteMetricsReporter)
    extends AuronRssShuffleWriterBase[K, V](metrics) {
  private val frames = new PushedFrames(push)
  private var pushing: Option[PushingWriter[K, V]] = None

  override def nativeRssShuffleWrite(
      nativeShuffleRDD: NativeRDD,
      dep: ShuffleDependency[_, _, _],
      mapId: Int,
      context: TaskContext,
      partition: Partition,
      numPartitions: Int): Unit = {
    def pushAll(): Unit =
      super.nativeRssShuffleWrite(nativeShuffleRDD, dep, mapId, context, partition, numPartitions)
    val writer = new PushingWriter[K, V](push)({ _ =>
      pushAll()
      frames.requireWhole()
    })
    pushing = Some(writer)
    writer.write(Iterator.empty)
  }

  override def getRssPartitionWriter(
      handle: ShuffleHandle,
      mapId: Int,
      metrics: ShuffleWriteMetricsReporter,
      numPartitions: Int): RssPartitionWriterBase = frames

  override def getPartitionLengths(): Array[Long] = push.partitionLengths()

  override def rssStop(success: Boolean): Option[MapStatus] = {
    val status = pushing.flatMap(_.stop(success))
    // Auron makes a status of its own of None, and Spark would take it for an output.
    if (success && status.isEmpty) {
      throw new IllegalStateException("Auron has not written a map output, and calls it a success")
    }
    status
  }

  override def stop(success: Boolean): Option[MapStatus] =
    if (success) super.stop(success)
    else {
      push.abort()
      None
    }
}

/**
 * What native code calls, on threads of its own. It waits for each call, and its buffer is no
 * longer there when the call has returned.
 */
private final class PushedFrames(push: FramePush) extends RssPartitionWriterBase {
  private var isWhole = false

  override def write(partitionId: Int, buffer: ByteBuffer): Unit = {
    if (buffer.hasRemaining) PushedFrames.check(buffer)
    push.push(partitionId, buffer)
  }

  /** Native code calls it after it has pushed all that it had in memory. */
  override def flush(): Unit = ()

  /** Called once, on the task's thread. Without success there may be no exception. */
  override def close(success: Boolean): Unit = isWhole = success

  override def getPartitionLengthMap: Array[Long] = push.partitionLengths()

  def requireWhole(): Unit = if (!isWhole) {
    throw new IllegalStateException("native code of Auron has not ended as it should")
  }
}

private object PushedFrames {

  /** The length of the rest, from its least byte on (`IpcCompressionWriter.finish_current_buf`). */
  private val HeadBytes = Integer.BYTES

  /**
   * Fails unless the buffer has exactly one frame. Another release of Auron might write parts of
   * frames, which readers get in any order.
   */
  private def check(buffer: ByteBuffer): Unit = {
    val length = buffer.remaining()
    def rest = buffer.duplicate().order(ByteOrder.LITTLE_ENDIAN).getInt(buffer.position())
    if (length < HeadBytes || rest != length - HeadBytes) {
      throw new IllegalStateException(
        s"Auron pushes $length bytes that are no whole frame: this jar of Lodestone is for " +
          "releases 7 and 8 of Auron")
    }
  }
}
