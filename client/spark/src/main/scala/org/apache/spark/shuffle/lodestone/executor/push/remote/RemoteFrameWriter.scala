// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.OutputStream
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption

import org.apache.spark.{ShuffleDependency, TaskContext}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.lodestone.executor.push.SegmentBuffers
import org.apache.spark.shuffle.lodestone.executor.push.records.{
  FrameOutput,
  MapStatuses,
  OutputCheck,
  RowChecksums
}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.WholeFrames
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.wire.PushBatch

/**
 * Writes the output of a map task of an engine to services. The engine writes a local file first:
 * it has no other way. Then its frames are pushed, and the file is removed. A segment has whole
 * frames, so that segments can be read one after another.
 */
private[remote] final class RemoteFrameWriter[K, V](
    dependency: ShuffleDependency[K, V, _],
    local: EngineOutput[K, V],
    push: RequiredPush,
    buffers: SegmentBuffers,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter,
    report: DriverMessage => Unit)
    extends ShuffleWriter[K, V] {
  private val numPartitions = dependency.partitioner.numPartitions
  private val segments =
    new SegmentWriter(push, buffers, numPartitions, context.taskMemoryManager())
  private val writer = local.writer
  private val decoder = local.decoder
  private val copied = new Array[Byte](64 << 10)
  private var lengths: Array[Long] = _
  private var status: Option[MapStatus] = None
  private var isWritten = false
  private var isOver = false

  override def write(rows: Iterator[Product2[K, V]]): Unit =
    try {
      writer.write(rows)
      isWritten = true
      writer.stop(success = true)
      lengths = FrameOutput.lengths(writer.getPartitionLengths(), numPartitions)
      val beganNs = System.nanoTime()
      send()
      val output = push.commit()
      metrics.incWriteTime(System.nanoTime() - beganNs)
      isOver = true
      // The engine's writer has counted records and bytes.
      report(push.pushed(output, segments.segments, lengths.sum))
      val attempt = push.attempt
      val location = output.location(attempt.shuffleId)
      status =
        Some(MapStatuses(location, lengths, attempt.mapId, RowChecksums(dependency)))
    } finally {
      segments.close()
      try local.remove()
      finally if (!isOver) push.abort()
    }

  override def stop(success: Boolean): Option[MapStatus] = {
    if (!success || !isOver) push.abort()
    if (!isWritten) writer.stop(success = false)
    if (success) status else None
  }

  override def getPartitionLengths(): Array[Long] = lengths

  private def send(): Unit = {
    val offsets = lengths.scanLeft(0L)(_ + _)
    if (offsets.last > 0) {
      val channel = FileChannel.open(local.file.toPath, StandardOpenOption.READ)
      try {
        OutputCheck.file(offsets.last, channel.size())
        val ranks = (0 until numPartitions).filter(rank => lengths(segments.partitionAt(rank)) > 0)
        ranks.foreach(segments.expect)
        segments.beginLastRound()
        val file = new BlockFile(channel)
        ranks.foreach { rank =>
          val partition = segments.partitionAt(rank)
          sendBlock(rank, file.open(offsets(partition), lengths(partition)))
        }
      } finally {
        channel.close()
      }
    }
    segments.end()
    for (partition <- 0 until numPartitions) {
      OutputCheck.bytes(partition, segments.sentOf(partition), lengths(partition))
    }
  }

  private def sendBlock(rank: Int, block: BlockFile): Unit = {
    val frames = new WholeFrames(block, decoder)
    var frame = frames.nextFrame()
    while (frame > 0) {
      if (frame > PushBatch.MaxBodyBytes) push.refuseTooLarge(segments.partitionAt(rank), frame)
      segments.addFrames(rank, frame) { out =>
        do {
          copy(frames, frame, out)
          frame = frames.nextFrame()
        } while (frame > 0 && segments.takes(frame))
        // The frames of a block are expected as one, which is in its last segment.
        if (frame == 0) 1 else 0
      }
    }
  }

  private def copy(frames: WholeFrames, size: Int, out: OutputStream): Unit = {
    var left = size
    while (left > 0) {
      // It fails if the frame is not whole.
      val some = frames.read(copied, 0, math.min(copied.length, left))
      out.write(copied, 0, some)
      left -= some
    }
  }
}
