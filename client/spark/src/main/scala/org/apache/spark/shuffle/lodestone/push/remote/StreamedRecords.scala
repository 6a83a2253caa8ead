// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.remote

import java.io.ByteArrayOutputStream

import scala.reflect.ClassTag

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.serializer.{SerializationStream, SerializerInstance, SerializerManager}
import org.apache.spark.util.Utils

/**
 * Records of such a serializer for few partitions: each partition has a stream that is open, as it has a
 * file in Spark's writer, and no object is held.
 */
private[remote] final class StreamedRecords(
    serializer: SerializerInstance,
    streams: SerializerManager,
    numPartitions: Int,
    memory: TaskMemoryManager,
    segments: SegmentWriter)
    extends RecordCollector {
  private val held = new StreamMemory(memory)
  private val open = new Array[PartitionStream](numPartitions)
  private var buffered = 0L
  private var peak = 0L

  override def add(partition: Int, key: Any, value: Any): Unit = {
    if (open(partition) == null) open(partition) = new PartitionStream(partition)
    buffered += open(partition).add(key, value)
    peak = math.max(peak, buffered)
    if (buffered >= RecordCollector.EnoughBytes || !held.isEnoughFor(buffered)) finish()
  }

  override def finish(): Unit = {
    for (partition <- open.indices if open(partition) != null) {
      segments.add(partition)(open(partition).writeTo)
      // Not before: what could not be added is closed with all the others.
      open(partition) = null
    }
    buffered = 0
    held.free()
    segments.send()
  }

  override def close(): Unit = {
    for (partition <- open.indices if open(partition) != null) {
      open(partition).abandon()
      open(partition) = null
    }
    held.free()
  }

  override def peakBytes: Long = peak

  private final class PartitionStream(partition: Int) {
    private val bytes = new ByteArrayOutputStream
    private val encoded = streams.wrapStream(segments.blockOf(partition), bytes)
    private val stream: SerializationStream = serializer.serializeStream(encoded)
    private var records = 0

    /** How many bytes there are more than before, as far as they have left the codec. */
    def add(key: Any, value: Any): Long = {
      val before = bytes.size()
      stream.writeKey(key)(ClassTag.Any)
      stream.writeValue(value)(ClassTag.Any)
      records += 1
      (bytes.size() - before).toLong
    }

    def writeTo(out: java.io.OutputStream): Int = {
      stream.close()
      bytes.writeTo(out)
      records
    }

    /** Nobody wants the bytes, but a codec may have memory that nothing else gives back. */
    def abandon(): Unit = Utils.tryLogNonFatalError {
      try stream.close()
      finally encoded.close()
    }
  }
}
