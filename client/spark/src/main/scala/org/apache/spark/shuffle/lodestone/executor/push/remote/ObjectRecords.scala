// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.OutputStream

import scala.reflect.ClassTag

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.serializer.{SerializerInstance, SerializerManager}
import org.apache.spark.util.Utils
import org.apache.spark.util.collection.{
  PartitionedPairBuffer,
  Spillable,
  WritablePartitionedIterator
}

/**
 * Records of a serializer whose bytes depend on what was written before: they stay objects until
 * they are sorted. Each segment is a stream of its own.
 */
private[remote] final class ObjectRecords(
    serializer: SerializerInstance,
    streams: SerializerManager,
    memory: TaskMemoryManager,
    segments: SegmentWriter)
    extends Spillable[PartitionedPairBuffer[Any, Any]](memory)
    with RecordCollector {
  private var buffer = new PartitionedPairBuffer[Any, Any]
  private var peak = 0L

  override def add(partition: Int, key: Any, value: Any): Unit = {
    addElementsRead()
    buffer.insert(partition, key, value)
    val bytes = buffer.estimateSize()
    peak = math.max(peak, bytes)
    if (maybeSpill(buffer, bytes)) buffer = new PartitionedPairBuffer[Any, Any]
  }

  override def finish(): Unit = {
    segments.beginLastRound()
    spill(buffer)
  }

  override def close(): Unit = {
    buffer = null
    releaseMemory()
  }

  override def peakBytes: Long = peak

  override protected def spill(collection: PartitionedPairBuffer[Any, Any]): Unit = {
    val sorted = collection.destructiveSortedWritablePartitionedIterator(None)
    while (sorted.hasNext) {
      val partition = sorted.nextPartition()
      segments.add(partition) { out =>
        val wrapped = streams.wrapStream(segments.blockOf(partition), out)
        var isWhole = false
        try {
          val records = write(sorted, partition, wrapped)
          isWhole = true
          records
        } finally {
          // A codec may have memory that nothing else gives back.
          if (!isWhole) Utils.tryLogNonFatalError(wrapped.close())
        }
      }
    }
    segments.endRound()
  }

  /** It spills only for itself, and not in the middle of the work of another consumer. */
  override protected def forceSpill(): Boolean = false

  /** Returns the number of records. */
  private def write(
      sorted: WritablePartitionedIterator[Any, Any],
      partition: Int,
      to: OutputStream): Int = {
    val stream = serializer.serializeStream(to)
    var records = 0
    while (sorted.hasNext && sorted.nextPartition() == partition && !segments.isSegmentFull) {
      sorted.writeNext { (key: Any, value: Any) =>
        stream.writeKey(key)(ClassTag.Any)
        stream.writeValue(value)(ClassTag.Any)
        ()
      }
      records += 1
    }
    stream.close()
    records
  }
}
