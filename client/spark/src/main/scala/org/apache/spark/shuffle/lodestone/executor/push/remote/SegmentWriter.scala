// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.{IOException, OutputStream}

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.shuffle.lodestone.executor.push.records.{OutputCheck, PartitionLongs}
import org.apache.spark.shuffle.lodestone.wire.{PushBatch, Segment}
import org.apache.spark.storage.ShuffleBlockId

/**
 * Makes bodies of segments, and pushes those that are full. A task fills one body at a time, and takes the
 * room for it before it begins: who waits for room has none. A large record takes more room later.
 *
 * While a task fills a body it asks Spark for no memory. Spark would let it wait for tasks that have some,
 * and they may wait for the room of its body.
 *
 * Segments come in rounds. In the last one the newest segment of a partition is known to be the last one
 * of its block when one of another partition comes; a block of which that round has nothing gets a segment
 * without bytes, which says so.
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
  private var nextSegment = 0

  /** By partition, how many segments there are of its block. */
  private val numbers = new PartitionLongs(numPartitions, memory)

  /** In the last round, the partition that came last. Those before it have their last segments. */
  private var last = SegmentWriter.NotYet
  private var waited = 0L

  /** Bytes of each partition, as they are at the services. */
  def lengths: Array[Long] = written.toArray

  /** How long it waited for room. */
  def waitedNanos: Long = waited

  def segments: Int = nextSegment

  /** A record of this partition comes in a segment sooner or later. Not to be called inside a round. */
  def expect(reduceId: Int): Unit = {
    if (!unsent.isMade(reduceId)) Seq(unsent, written, numbers).foreach(_.make(reduceId))
    unsent.add(reduceId, 1)
  }

  /** A segment of this partition; `records` writes it, and says how many there are in it. */
  def add(reduceId: Int)(records: OutputStream => Int): Unit = {
    if (isLastRound) endBlocksBefore(reduceId)
    beginFor(reduceId)
    val count = recordsOf(records)
    unsent.add(reduceId, -count.toLong)
    written.add(reduceId, endSegment(reduceId, count).length.toLong)
  }

  /** From now on segments come in the order of their partitions, and nothing comes after them. */
  def beginLastRound(): Unit = if (!isLastRound) last = 0

  /** The segment that is being written is large enough. */
  def isSegmentFull: Boolean = output.segmentBytes >= segmentBytes

  def blockOf(reduceId: Int): ShuffleBlockId =
    ShuffleBlockId(push.attempt.shuffleId, push.attempt.mapId, reduceId)

  /** The end of a round. All segments are on their way when this returns; those of the last one by [[end]]. */
  def endRound(): Unit = if (!isLastRound) send()

  /**
   * Nothing comes any more: all segments, and the ends of all blocks, are on their way when this returns.
   * It fails if a record is in no segment, or in two.
   */
  def end(): Unit = {
    checkRecords()
    beginLastRound()
    endBlocksBefore(numPartitions)
    send()
  }

  /** What was not sent is not needed. */
  def close(): Unit = {
    written.free()
    unsent.free()
    numbers.free()
    if (output != null) {
      output.free()
      output = null
    }
  }

  private def checkRecords(): Unit = unsent.firstNonZero.foreach { partition =>
    OutputCheck.unsent(partition, unsent(partition))
  }

  private def isLastRound: Boolean = last != SegmentWriter.NotYet

  private def endBlocksBefore(partition: Int): Unit = {
    if (partition < last) {
      throw new IllegalStateException(s"partition $partition after $last in the last round")
    }
    while (last < partition) {
      if (output != null && output.isNewestOf(last)) {
        output.markLast()
      } else if (numbers(last) > 0) {
        beginFor(last)
        endSegment(last, records = 0)
        output.markLast()
      }
      last += 1
    }
  }

  private def recordsOf(write: OutputStream => Int): Int =
    try write(output)
    catch {
      // The serializer failed, or the wait for room below it did. Kryo and Java's serializer wrap the
      // exception of that wait. A task that was killed, or has to be run again, must not count as failed.
      // Its body is never sent.
      case failure @ (_: RuntimeException | _: IOException) =>
        push.throwIfOver()
        throw failure
    }

  private def endSegment(reduceId: Int, records: Int): Segment = {
    val number = numbers(reduceId).toInt
    numbers.add(reduceId, 1)
    output.endSegment(reduceId, number, records)
  }

  private def send(): Unit = if (output != null) {
    val count = output.count
    waited += output.waitedNanos
    val body = output.result(nextSegment)
    output = null
    nextSegment += count
    push.push(body)
  }

  private def beginFor(partition: Int): Unit = {
    val next = push.groupOf(partition)
    if (output != null && (next != group || isBodyFull)) send()
    if (output == null) {
      val from = System.nanoTime()
      val room = bodies.begin(() => push.throwIfOver())
      waited += System.nanoTime() - from
      output = new SegmentOutput(room)
      group = next
    }
  }

  private def isBodyFull: Boolean =
    output.sizeBytes > bodies.sizeBytes - segmentBytes || output.count >= PushBatch.MaxSegments
}

private[remote] object SegmentWriter {

  /** A body is full when the next segment might not fit. */
  private val SegmentsPerBody = 4

  /** There may be another round. */
  private val NotYet = -1
}
