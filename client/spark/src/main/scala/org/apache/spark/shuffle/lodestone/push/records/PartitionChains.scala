// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.util.Arrays

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/**
 * For each partition a chain of chunks in memory, which are filled with whole records one after the
 * other. A record is written where it will be read: nothing is sorted, and who reads a partition goes
 * through memory in order. (Pointers that are sorted, as Spark does it, cost a wait for memory for each
 * record when the output is written: a quarter of a map task.)
 *
 * A chunk begins with a head: the next chunk of its partition, the bytes of its records, how many those
 * are. It is valid when the chunk is full, or `ended`.
 */
private[records] final class PartitionChains(
    numPartitions: Int,
    pages: collection.IndexedSeq[MemoryBlock]) {
  import PartitionChains._

  private val firsts = new Array[Long](numPartitions)

  /** Of each partition's last chunk, side by side: where the next record goes, and what is needed besides. */
  private val lasts = new Array[Long](numPartitions * Fields)

  def hasRoom(partition: Int, length: Int): Boolean = {
    val last = partition * Fields
    lasts(last + End) - lasts(last + Cursor) >= length
  }

  /** There is room for it. */
  def append(partition: Int, bytes: Array[Byte], start: Int, length: Int): Unit = {
    val last = partition * Fields
    val cursor = lasts(last + Cursor)
    val base = baseOf(pages, lasts(last + Chunk))
    RecordCopy(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + start, base, cursor, length)
    lasts(last + Cursor) = cursor + length
    lasts(last + Records) += 1
  }

  /** How large the partition's next chunk should be: half of what it has, so that little is left over. */
  def nextChunkBytes(partition: Int): Long = {
    val chunk = lasts(partition * Fields + Chunk)
    if (chunk == NoChunk) {
      FirstChunkBytes
    } else {
      val bytes = lasts(partition * Fields + End) - startOf(pages, chunk)
      math.min(MostChunkBytes, bytes + bytes / 2)
    }
  }

  /** The partition goes on in these bytes, which begin at `start` of a page. */
  def addChunk(partition: Int, page: Int, start: Long, bytes: Long): Unit = {
    val chunk = pointer(page, start - pages(page).getBaseOffset)
    val last = partition * Fields
    if (lasts(last + Chunk) == NoChunk) firsts(partition) = chunk else end(partition, chunk)
    lasts(last + Cursor) = start + HeadBytes
    lasts(last + End) = start + bytes
    lasts(last + Chunk) = chunk
    lasts(last + Records) = 0
  }

  /** All that is there, partition by partition. Only valid until something is added. */
  def ended(): PartitionedRecords = {
    var partition = 0
    while (partition < numPartitions) {
      if (firsts(partition) != NoChunk) end(partition, NoChunk)
      partition += 1
    }
    new PartitionedRecords(firsts, pages)
  }

  def clear(): Unit = {
    Arrays.fill(firsts, NoChunk)
    Arrays.fill(lasts, 0)
  }

  /** Writes the head of the partition's last chunk. */
  private def end(partition: Int, next: Long): Unit = {
    val last = partition * Fields
    val chunk = lasts(last + Chunk)
    val base = baseOf(pages, chunk)
    val start = startOf(pages, chunk)
    val length = lasts(last + Cursor) - start - HeadBytes
    Platform.putLong(base, start, next)
    Platform.putInt(base, start + LengthAt, length.toInt)
    Platform.putInt(base, start + RecordsAt, lasts(last + Records).toInt)
  }
}

private[records] object PartitionChains {

  /** What is known of a partition's last chunk. */
  private val Cursor = 0
  private val End = 1
  private val Chunk = 2
  private val Records = 3
  private val Fields = 4

  val HeadBytes = 16L
  private[records] val LengthAt = 8L
  private[records] val RecordsAt = 12L

  /** Its head, and some short records. */
  private val FirstChunkBytes = 64L

  /** As much as an encoder takes at once. */
  private val MostChunkBytes = 32L * 1024

  private[records] val NoChunk = 0L

  private val PageShift = 32
  private val OffsetMask = (1L << PageShift) - 1

  private def pointer(page: Int, offset: Long): Long = ((page + 1L) << PageShift) | offset

  private def pageOf(chunk: Long): Int = (chunk >>> PageShift).toInt - 1

  private[records] def baseOf(pages: collection.IndexedSeq[MemoryBlock], chunk: Long): AnyRef =
    pages(pageOf(chunk)).getBaseObject

  private[records] def startOf(pages: collection.IndexedSeq[MemoryBlock], chunk: Long): Long =
    pages(pageOf(chunk)).getBaseOffset + (chunk & OffsetMask)
}

/** Records in the order of their partitions; within one, as they came. They are given away chunk by chunk. */
private[push] final class PartitionedRecords(
    firsts: Array[Long],
    pages: collection.IndexedSeq[MemoryBlock]) {
  import PartitionChains._

  private var at = -1
  private var chunk = NoChunk
  nextPartition()

  def hasNext: Boolean = at < firsts.length

  /** Of the next records. */
  def partition: Int = at

  /** Gives the next records away, and says how many there are. */
  def next(to: RecordSink): Int = {
    val base = baseOf(pages, chunk)
    val start = startOf(pages, chunk)
    to.records(base, start + HeadBytes, Platform.getInt(base, start + LengthAt))
    val count = Platform.getInt(base, start + RecordsAt)
    chunk = Platform.getLong(base, start)
    if (chunk == NoChunk) nextPartition()
    count
  }

  private def nextPartition(): Unit = {
    at += 1
    while (at < firsts.length && firsts(at) == NoChunk) at += 1
    if (at < firsts.length) chunk = firsts(at)
  }
}

/** Takes records, which stand one after the other, where they are in memory. */
private[push] trait RecordSink {
  def records(base: AnyRef, offset: Long, length: Int): Unit
}
