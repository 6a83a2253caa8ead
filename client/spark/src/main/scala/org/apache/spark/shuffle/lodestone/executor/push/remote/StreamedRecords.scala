// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.ByteArrayOutputStream
import java.util.ArrayDeque

import scala.reflect.ClassTag

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.serializer.{SerializationStream, SerializerInstance, SerializerManager}
import org.apache.spark.util.Utils

/**
 * Records of a serializer whose bytes depend on those before, for few partitions: each partition
 * has an open stream, as it has a file in Spark's writer, and no object is held.
 */
private[remote] final class StreamedRecords(
    serializer: SerializerInstance,
    streams: SerializerManager,
    numPartitions: Int,
    memory: TaskMemoryManager,
    segments: SegmentWriter)
    extends RecordCollector {
  private val held = new StreamMemory(memory)

  /** By partition: streams that are large enough for a segment, and the one that is open. */
  private val filled = new Array[ArrayDeque[PartitionStream]](numPartitions)
  private var buffered = 0L
  private var peak = 0L

  override def add(partition: Int, key: Any, value: Any): Unit = {
    buffered += streamOf(partition).add(key, value)
    peak = math.max(peak, buffered)
    if (buffered >= RecordCollector.EnoughBytes || !held.isEnoughFor(buffered)) giveAll()
  }

  override def finish(): Unit = {
    segments.beginLastRound()
    giveAll()
  }

  override def close(): Unit = {
    for (some <- filled if some != null) {
      some.forEach(_.abandon())
      some.clear()
    }
    held.free()
  }

  override def peakBytes: Long = peak

  private def giveAll(): Unit = {
    for (partition <- filled.indices if filled(partition) != null) {
      while (!filled(partition).isEmpty) {
        segments.add(partition)(filled(partition).peekFirst().writeTo)
        // Only now: a stream that could not be added is closed with all the others.
        filled(partition).removeFirst()
      }
    }
    buffered = 0
    held.free()
    segments.endRound()
  }

  private def streamOf(partition: Int): PartitionStream = {
    if (filled(partition) == null) filled(partition) = new ArrayDeque[PartitionStream](1)
    val last = filled(partition).peekLast()
    if (last != null && last.isOpen) last
    else {
      val next = new PartitionStream(partition)
      filled(partition).addLast(next)
      next
    }
  }

  private final class PartitionStream(partition: Int) {
    private val bytes = new ByteArrayOutputStream
    private val encoded = streams.wrapStream(segments.blockOf(partition), bytes)
    private val stream: SerializationStream = serializer.serializeStream(encoded)
    private var records = 0
    private var isEnded = false

    def isOpen: Boolean = !isEnded

    /** Returns the number of bytes that have left the codec. */
    def add(key: Any, value: Any): Long = {
      val before = bytes.size()
      stream.writeKey(key)(ClassTag.Any)
      stream.writeValue(value)(ClassTag.Any)
      records += 1
      // A larger segment would not fit into the memory that is reserved for a buffer.
      if (bytes.size() >= segments.segmentBytes) end()
      (bytes.size() - before).toLong
    }

    def writeTo(out: java.io.OutputStream): Int = {
      end()
      bytes.writeTo(out)
      records
    }

    /** Nobody needs the bytes, but a codec may have memory that nothing else gives back. */
    def abandon(): Unit = if (isOpen) Utils.tryLogNonFatalError {
      try stream.close()
      finally encoded.close()
    }

    private def end(): Unit = if (isOpen) {
      stream.close()
      isEnded = true
    }
  }
}
