// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.remote

import java.io.OutputStream

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.shuffle.lodestone.push.records.{OutputCheck, PartitionLongs}
import org.apache.spark.shuffle.lodestone.wire.PushBatch
import org.apache.spark.storage.ShuffleBlockId

/**
 * Makes bodies of segments, and pushes those that are full. At most one body of a task is being filled;
 * the room for it is taken before it is begun, so that nobody who waits for room has any.
 */
private[remote] final class SegmentWriter(
    push: AttemptPush,
    bodies: Bodies,
    numPartitions: Int,
    memory: TaskMemoryManager) {

  /** At which a segment is large enough. */
  val segmentBytes: Int = bodies.sizeBytes / SegmentWriter.SegmentsPerBody
  private val written = new PartitionLongs(numPartitions, memory)

  /** Records that were taken and are in no segment yet. */
  private val unsent = new PartitionLongs(numPartitions, memory)
  private var output: SegmentOutput = _
  private var group = -1
  private var nextSequence = 0
  private var waited = 0L

  /** Bytes of each partition, as they are at the services. */
  def lengths: Array[Long] = written.toArray

  /** How long it waited for room. */
  def waitedNanos: Long = waited

  def segments: Int = nextSequence

  /** A record of this partition comes in a segment sooner or later. */
  def expect(reduceId: Int): Unit = unsent.add(reduceId, 1)

  /** Call it when all is in segments: fails if a record is in none, or in two. */
  def checkRecords(): Unit = unsent.firstNonZero.foreach { partition =>
    OutputCheck.unsent(partition, unsent(partition))
  }

  /** A segment of this partition; `records` writes it, and says how many there are in it. */
  def add(reduceId: Int)(records: OutputStream => Int): Unit = {
    beginFor(reduceId)
    val count = records(output)
    unsent.add(reduceId, -count.toLong)
    written.add(reduceId, output.endSegment(reduceId, count).length.toLong)
  }

  /** The segment that is being written is large enough. */
  def isSegmentFull: Boolean = output.segmentBytes >= segmentBytes

  def blockOf(reduceId: Int): ShuffleBlockId =
    ShuffleBlockId(push.attempt.shuffleId, push.attempt.mapId, reduceId)

  /** All segments are on their way when this returns. */
  def send(): Unit = if (output != null) {
    val count = output.count
    val memoryBytes = output.memoryBytes
    val body = output.result(nextSequence, () => bodies.end(memoryBytes))
    bodies.made(memoryBytes)
    output = null
    nextSequence += count
    push.push(body)
  }

  /** What was not sent is not needed. */
  def close(): Unit = {
    written.free()
    unsent.free()
    if (output != null) {
      output.free()
      output = null
      bodies.drop()
    }
  }

  private def beginFor(partition: Int): Unit = {
    val next = push.groupOf(partition)
    if (output != null && (next != group || isBodyFull)) send()
    if (output == null) {
      val from = System.nanoTime()
      bodies.begin(push.throwIfOver())
      waited += System.nanoTime() - from
      output = new SegmentOutput(bodies.memory)
      group = next
    }
  }

  private def isBodyFull: Boolean =
    output.sizeBytes > bodies.sizeBytes - segmentBytes || output.count >= PushBatch.MaxSegments
}

private[remote] object SegmentWriter {

  /** A body is full when the next segment might not fit. */
  private val SegmentsPerBody = 4
}
