// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

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
 *
 * What is known of partitions is kept in tables of neighbours, made when the first of them gets a record:
 * a task may have millions of partitions and records for few.
 */
private[records] final class PartitionChains(
    numPartitions: Int,
    pages: collection.IndexedSeq[MemoryBlock]) {
  import PartitionChains._

  private val tables = new Array[Array[Long]]((numPartitions + TableMask) >>> TableShift)

  /** Whether nothing has to be made for the partition but chunks. */
  def hasTable(partition: Int): Boolean = tables(partition >>> TableShift) != null

  /** What `makeTable` takes. */
  def tableBytes(partition: Int): Long = {
    val first = partition & ~TableMask
    math.min(TablePartitions, numPartitions - first).toLong * Fields * java.lang.Long.BYTES
  }

  def makeTable(partition: Int): Unit = {
    val longs = tableBytes(partition) / java.lang.Long.BYTES
    tables(partition >>> TableShift) = new Array[Long](longs.toInt)
  }

  def hasRoom(partition: Int, length: Int): Boolean = {
    val table = tables(partition >>> TableShift)
    table != null && {
      val row = rowOf(partition)
      table(row + End) - table(row + Cursor) >= length
    }
  }

  /** There is room for it. */
  def append(partition: Int, bytes: Array[Byte], start: Int, length: Int): Unit = {
    val table = tables(partition >>> TableShift)
    val row = rowOf(partition)
    val cursor = table(row + Cursor)
    val base = baseOf(pages, table(row + Chunk))
    RecordCopy(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + start, base, cursor, length)
    table(row + Cursor) = cursor + length
    table(row + Records) += 1
    table(row + Bytes) += length
  }

  /** How large the partition's next chunk should be: half of what it has, so that little is left over. */
  def nextChunkBytes(partition: Int): Long = {
    val table = tables(partition >>> TableShift)
    val row = rowOf(partition)
    val chunk = table(row + Chunk)
    if (chunk == NoChunk) {
      FirstChunkBytes
    } else {
      val bytes = table(row + End) - startOf(pages, chunk)
      math.min(MostChunkBytes, bytes + bytes / 2)
    }
  }

  /** The partition goes on in these bytes, which begin at `start` of a page. */
  def addChunk(partition: Int, page: Int, start: Long, bytes: Long): Unit = {
    val chunk = pointer(page, start - pages(page).getBaseOffset)
    val table = tables(partition >>> TableShift)
    val row = rowOf(partition)
    if (table(row + Chunk) == NoChunk) table(row + First) = chunk else end(table, row, chunk)
    table(row + Cursor) = start + HeadBytes
    table(row + End) = start + bytes
    table(row + Chunk) = chunk
    table(row + Records) = 0
  }

  /** All that is there, partition by partition. Only valid until something is added. */
  def ended(): PartitionedRecords = {
    for (table <- tables if table != null) {
      var row = 0
      while (row < table.length) {
        if (table(row + First) != NoChunk) end(table, row, NoChunk)
        row += Fields
      }
    }
    new PartitionedRecords(this, numPartitions, pages)
  }

  /** The tables go as well. */
  def clear(): Unit = java.util.Arrays.fill(tables.asInstanceOf[Array[AnyRef]], null)

  /** From this partition on the first that has records, or `numPartitions`. */
  private[records] def nextFilled(from: Int): Int = {
    var partition = from
    while (partition < numPartitions && firstOf(partition) == NoChunk) {
      partition = if (hasTable(partition)) partition + 1 else (partition | TableMask) + 1
    }
    math.min(partition, numPartitions)
  }

  private[records] def firstOf(partition: Int): Long = {
    val table = tables(partition >>> TableShift)
    if (table == null) NoChunk else table(rowOf(partition) + First)
  }

  /** Of all records that were appended to the partition. */
  private[records] def bytesOf(partition: Int): Long =
    tables(partition >>> TableShift)(rowOf(partition) + Bytes)

  /** Writes the head of the partition's last chunk. */
  private def end(table: Array[Long], row: Int, next: Long): Unit = {
    val chunk = table(row + Chunk)
    val base = baseOf(pages, chunk)
    val start = startOf(pages, chunk)
    val length = table(row + Cursor) - start - HeadBytes
    Platform.putLong(base, start, next)
    Platform.putInt(base, start + LengthAt, length.toInt)
    Platform.putInt(base, start + RecordsAt, table(row + Records).toInt)
  }
}

private[records] object PartitionChains {

  /** Neighbours whose state is made together: some 50 KB. */
  private val TableShift = 10
  private val TablePartitions = 1 << TableShift
  private val TableMask = TablePartitions - 1

  /** What is known of a partition, side by side: its last chunk, all of its bytes, its first chunk. */
  private val Cursor = 0
  private val End = 1
  private val Chunk = 2
  private val Records = 3
  private val Bytes = 4
  private val First = 5
  private val Fields = 6

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

  private def rowOf(partition: Int): Int = (partition & TableMask) * Fields

  private def pointer(page: Int, offset: Long): Long = ((page + 1L) << PageShift) | offset

  private def pageOf(chunk: Long): Int = (chunk >>> PageShift).toInt - 1

  private[records] def baseOf(pages: collection.IndexedSeq[MemoryBlock], chunk: Long): AnyRef =
    pages(pageOf(chunk)).getBaseObject

  private[records] def startOf(pages: collection.IndexedSeq[MemoryBlock], chunk: Long): Long =
    pages(pageOf(chunk)).getBaseOffset + (chunk & OffsetMask)
}
