// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.{IOException, OutputStream}

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.shuffle.lodestone.executor.push.{SegmentBuffer, SegmentBuffers}
import org.apache.spark.shuffle.lodestone.executor.push.records.{
  OutputCheck,
  PartitionLongs,
  RecordCounts
}
import org.apache.spark.shuffle.lodestone.wire.{PushBatch, Segment}
import org.apache.spark.storage.ShuffleBlockId

/**
 * Makes buffers of segments, and pushes those that are full. A task fills one buffer at a time, and
 * reserves its memory before it begins, so that a task that waits has none. A large record takes
 * more memory later.
 *
 * While a task fills a buffer, it does not ask Spark for memory. Spark would let it wait for tasks
 * that have some, and they may wait for the memory of its buffer.
 *
 * A task adds the segments of one service, and then those of the next one: ranks give this order to
 * partitions. So each service gets few large batches. Map tasks that start together begin at
 * different services.
 *
 * Segments come in rounds. In the last round, the newest segment of a partition is the last one of
 * its block when one of another partition comes. A block that has no segment in the last round gets
 * one without bytes, which marks its end.
 */
private[remote] final class SegmentWriter(
    push: RequiredPush,
    buffers: SegmentBuffers,
    numPartitions: Int,
    memory: TaskMemoryManager) {

  /** A segment of this size is large enough. */
  val segmentBytes: Int = buffers.sizeBytes / SegmentWriter.SegmentsPerBuffer
  private val stripes = push.stripes
  private val first = stripes.firstRankOf(push.attempt.mapIndex % stripes.services)

  // By rank.
  private val written = new PartitionLongs(numPartitions, memory)

  /** Records that the task has added and that are in no segment yet. */
  private val unsent = new PartitionLongs(numPartitions, memory)
  private var output: SegmentBuffer = _
  private var group = -1
  private var nextSegment = 0

  /** The number of segments of a block. */
  private val numbers = new PartitionLongs(numPartitions, memory)

  /** In the last round, the newest rank. The ranks before it have their last segments. */
  private var last = SegmentWriter.NotYet
  private var waited = 0L

  /** The rank of the newest segment of the buffer. */
  private var newest = SegmentWriter.None

  /** Bytes of each partition, as they are at the services. */
  def lengths: Array[Long] =
    Array.tabulate(numPartitions)(sentOf)

  def sentOf(partition: Int): Long = written(rankOf(partition))

  /** The name of the partition in the other methods. */
  def rankOf(partition: Int): Int = {
    val rank = stripes.rankOf(partition) - first
    if (rank < 0) rank + numPartitions else rank
  }

  def partitionAt(rank: Int): Int = stripes.partitionAt((rank + first) % numPartitions)

  /** How long it waited for memory. */
  def waitedNanos: Long = waited

  def segments: Int = nextSegment

  /** A record of this rank comes in a later segment. Not to be called inside a round. */
  def expect(rank: Int): Unit = {
    make(rank)
    unsent.add(rank, 1)
  }

  /** For callers on other threads than the task's, which may not ask Spark for memory. */
  def makeAll(): Unit = (0 until numPartitions).foreach(make)

  private def make(rank: Int): Unit =
    if (!unsent.isMade(rank)) Seq(unsent, written, numbers).foreach(_.make(rank))

  /** A segment of this rank; `records` writes it, and says how many there are in it. */
  def add(rank: Int)(records: OutputStream => Int): Unit = put(rank, 0, records)(identity)

  /**
   * A segment of whole frames of an engine, with an unknown number of rows. `frames` writes them,
   * and says how many of what is expected are in it.
   *
   * @param bytes
   *   the size of its first frame. A large frame gets a new request, which has room for it
   */
  def addFrames(rank: Int, bytes: Int)(frames: OutputStream => Int): Unit =
    put(rank, bytes, frames)(_ => RecordCounts.Unknown)

  private def put(rank: Int, bytes: Int, records: OutputStream => Int)(shown: Int => Int): Unit = {
    if (isLastRound) endBlocksBefore(rank)
    beginFor(rank, bytes)
    val count = recordsOf(records)
    unsent.add(rank, -count.toLong)
    written.add(rank, endSegment(rank, shown(count)).length.toLong)
  }

  /** From now on segments come in the order of their ranks, and nothing comes after them. */
  def beginLastRound(): Unit = if (!isLastRound) last = 0

  /** The segment that is being written is large enough. */
  def isSegmentFull: Boolean = output.segmentBytes >= segmentBytes

  /**
   * True if the segment that is being written takes a frame of so many bytes. A large frame gets a
   * segment without others.
   */
  def takes(bytes: Int): Boolean =
    !isSegmentFull && bytes <= segmentBytes && fits(bytes)

  def blockOf(rank: Int): ShuffleBlockId =
    ShuffleBlockId(push.attempt.shuffleId, push.attempt.mapId, partitionAt(rank))

  /** Ends a round, and pushes its segments. Those of the last round are pushed by [[end]]. */
  def endRound(): Unit = if (!isLastRound) send()

  /**
   * Pushes all segments and the ends of all blocks. It fails if a record is in no segment, or in
   * two.
   */
  def end(): Unit = {
    checkRecords()
    beginLastRound()
    endBlocksBefore(numPartitions)
    send()
  }

  /** Drops segments that were not pushed. */
  def close(): Unit = {
    written.free()
    unsent.free()
    numbers.free()
    if (output != null) {
      output.release()
      output = null
    }
  }

  private def checkRecords(): Unit = unsent.firstNonZero.foreach { rank =>
    OutputCheck.unsent(partitionAt(rank), unsent(rank))
  }

  private def isLastRound: Boolean = last != SegmentWriter.NotYet

  private def endBlocksBefore(rank: Int): Unit = {
    if (rank < last) {
      throw new IllegalStateException(s"rank $rank after $last in the last round")
    }
    while (last < rank) {
      if (output != null && newest == last) {
        output.markLast()
      } else if (numbers(last) > 0) {
        beginFor(last, 0)
        endSegment(last, records = 0)
        output.markLast()
      }
      last += 1
    }
  }

  private def recordsOf(write: OutputStream => Int): Int =
    try write(output)
    catch {
      // The serializer failed, or the wait for memory below it. Kryo and Java's serializer wrap the
      // exception of that wait. A task that was killed, or has to be run again, must not count as
      // failed. Its buffer is never sent.
      case failure @ (_: RuntimeException | _: IOException) =>
        push.throwIfOver()
        throw failure
    }

  private def endSegment(rank: Int, records: Int): Segment = {
    val number = numbers(rank).toInt
    numbers.add(rank, 1)
    newest = rank
    output.endSegment(partitionAt(rank), number, records)
  }

  private def send(): Unit = if (output != null) {
    waited += output.waitedNanos
    output.seal(nextSegment)
    val buffer = output
    output = null
    newest = SegmentWriter.None
    nextSegment += buffer.count
    push.push(buffer)
  }

  private def beginFor(rank: Int, bytes: Int): Unit = {
    val next = push.groupOf(partitionAt(rank))
    if (output != null && (next != group || isBufferFull || !fits(bytes))) send()
    if (output == null) {
      output = buffers.reserve(() => push.throwIfOver())
      group = next
    }
  }

  private def fits(bytes: Int): Boolean =
    output.sizeBytes == 0 || output.sizeBytes.toLong + bytes <= buffers.sizeBytes

  private def isBufferFull: Boolean =
    output.sizeBytes > buffers.sizeBytes - segmentBytes || output.count >= PushBatch.MaxSegments
}

private[remote] object SegmentWriter {

  /** A buffer is full when the next segment might not fit. */
  private val SegmentsPerBuffer = 4

  /** There may be another round. */
  private val NotYet = -1
  private val None = -1
}
