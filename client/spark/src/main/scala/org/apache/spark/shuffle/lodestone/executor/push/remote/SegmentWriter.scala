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
 * A task adds the segments of one service, and then those of the next one: ranks give this order to
 * partitions. So each service gets few large bodies.
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
  private val stripes = push.stripes

  // By rank.
  private val written = new PartitionLongs(numPartitions, memory)

  /** Records that were taken and are in no segment yet. */
  private val unsent = new PartitionLongs(numPartitions, memory)
  private var output: SegmentOutput = _
  private var group = -1
  private var nextSegment = 0

  /** How many segments there are of a block. */
  private val numbers = new PartitionLongs(numPartitions, memory)

  /** In the last round, the rank that came last. Those before it have their last segments. */
  private var last = SegmentWriter.NotYet
  private var waited = 0L

  /** The rank of the newest segment of the body. */
  private var newest = SegmentWriter.None

  /** Bytes of each partition, as they are at the services. */
  def lengths: Array[Long] =
    Array.tabulate(numPartitions)(partition => written(stripes.rankOf(partition)))

  /** By which the other methods name the partition. */
  def rankOf(partition: Int): Int = stripes.rankOf(partition)

  /** How long it waited for room. */
  def waitedNanos: Long = waited

  def segments: Int = nextSegment

  /** A record of this rank comes in a segment sooner or later. Not to be called inside a round. */
  def expect(rank: Int): Unit = {
    if (!unsent.isMade(rank)) Seq(unsent, written, numbers).foreach(_.make(rank))
    unsent.add(rank, 1)
  }

  /** A segment of this rank; `records` writes it, and says how many there are in it. */
  def add(rank: Int)(records: OutputStream => Int): Unit = {
    if (isLastRound) endBlocksBefore(rank)
    beginFor(rank)
    val count = recordsOf(records)
    unsent.add(rank, -count.toLong)
    written.add(rank, endSegment(rank, count).length.toLong)
  }

  /** From now on segments come in the order of their ranks, and nothing comes after them. */
  def beginLastRound(): Unit = if (!isLastRound) last = 0

  /** The segment that is being written is large enough. */
  def isSegmentFull: Boolean = output.segmentBytes >= segmentBytes

  def blockOf(rank: Int): ShuffleBlockId =
    ShuffleBlockId(push.attempt.shuffleId, push.attempt.mapId, stripes.partitionAt(rank))

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

  private def checkRecords(): Unit = unsent.firstNonZero.foreach { rank =>
    OutputCheck.unsent(stripes.partitionAt(rank), unsent(rank))
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

  private def endSegment(rank: Int, records: Int): Segment = {
    val number = numbers(rank).toInt
    numbers.add(rank, 1)
    newest = rank
    output.endSegment(stripes.partitionAt(rank), number, records)
  }

  private def send(): Unit = if (output != null) {
    val count = output.count
    waited += output.waitedNanos
    val body = output.result(nextSegment)
    output = null
    newest = SegmentWriter.None
    nextSegment += count
    push.push(body)
  }

  private def beginFor(rank: Int): Unit = {
    val next = push.groupOf(stripes.partitionAt(rank))
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
  private val None = -1
}
