// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import org.apache.spark.shuffle.lodestone.executor.rows.RecordCopy
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/**
 * Holds the records of each partition in a chain of nodes in memory. The writer fills a node with
 * whole records one after another, so nothing is sorted, and a reader of a partition passes through
 * memory in order. (Spark sorts pointers. Then the output waits for memory at each record, which
 * takes a quarter of a map task.)
 *
 * A node begins with a head: the next node of its partition, the bytes of its records, and their
 * number. The head is valid if the node is full, or after `ended`.
 *
 * The state of partitions is in tables of neighbours, which exist from the first record of one of
 * them on: a task may have millions of partitions, and records for few.
 */
private[records] final class PartitionChains(
    numPartitions: Int,
    pages: collection.IndexedSeq[MemoryBlock]) {
  import PartitionChains._

  private val tables = new Array[Array[Long]]((numPartitions + TableMask) >>> TableShift)

  /** True if the partition needs nothing but nodes. */
  def hasTable(partition: Int): Boolean = tables(partition >>> TableShift) != null

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

  /** Adds a record for which there is room. */
  def append(partition: Int, bytes: Array[Byte], start: Int, length: Int): Unit = {
    val table = tables(partition >>> TableShift)
    val row = rowOf(partition)
    val cursor = table(row + Cursor)
    val base = baseOf(pages, table(row + Node))
    RecordCopy(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + start, base, cursor, length)
    table(row + Cursor) = cursor + length
    table(row + Records) += 1
    table(row + Bytes) += length
  }

  /** Returns the size of the next node. It grows by half, so that little is left unused. */
  def nextNodeBytes(partition: Int): Long = {
    val table = tables(partition >>> TableShift)
    val row = rowOf(partition)
    val node = table(row + Node)
    if (node == NoNode) {
      FirstNodeBytes
    } else {
      val bytes = table(row + End) - startOf(pages, node)
      math.min(MaxNodeBytes, bytes + bytes / 2)
    }
  }

  /** Adds a node of these bytes, which begin at `start` of a page. */
  def addNode(partition: Int, page: Int, start: Long, bytes: Long): Unit = {
    val node = pointer(page, start - pages(page).getBaseOffset)
    val table = tables(partition >>> TableShift)
    val row = rowOf(partition)
    if (table(row + Node) == NoNode) table(row + First) = node else end(table, row, node)
    table(row + Cursor) = start + HeadBytes
    table(row + End) = start + bytes
    table(row + Node) = node
    table(row + Records) = 0
  }

  /** Returns all records, partition by partition. They are valid until a record is added. */
  def ended(): PartitionedRecords = {
    for (table <- tables if table != null) {
      var row = 0
      while (row < table.length) {
        if (table(row + First) != NoNode) end(table, row, NoNode)
        row += Fields
      }
    }
    new PartitionedRecords(this, numPartitions, pages)
  }

  def clear(): Unit = java.util.Arrays.fill(tables.asInstanceOf[Array[AnyRef]], null)

  /** Returns the first partition from `from` on that has records, or `numPartitions`. */
  private[records] def nextFilled(from: Int): Int = {
    var partition = from
    while (partition < numPartitions && firstOf(partition) == NoNode) {
      partition = if (hasTable(partition)) partition + 1 else (partition | TableMask) + 1
    }
    math.min(partition, numPartitions)
  }

  private[records] def firstOf(partition: Int): Long = {
    val table = tables(partition >>> TableShift)
    if (table == null) NoNode else table(rowOf(partition) + First)
  }

  private[records] def bytesOf(partition: Int): Long =
    tables(partition >>> TableShift)(rowOf(partition) + Bytes)

  private def end(table: Array[Long], row: Int, next: Long): Unit = {
    val node = table(row + Node)
    val base = baseOf(pages, node)
    val start = startOf(pages, node)
    val length = table(row + Cursor) - start - HeadBytes
    Platform.putLong(base, start, next)
    Platform.putInt(base, start + LengthAt, length.toInt)
    Platform.putInt(base, start + RecordsAt, table(row + Records).toInt)
  }
}

private[records] object PartitionChains {

  /** The partitions of one table: some 50 KB. */
  private val TableShift = 10
  private val TablePartitions = 1 << TableShift
  private val TableMask = TablePartitions - 1

  /** The fields of a partition: its last node, its bytes, its first node. */
  private val Cursor = 0
  private val End = 1
  private val Node = 2
  private val Records = 3
  private val Bytes = 4
  private val First = 5
  private val Fields = 6

  val HeadBytes = 16L
  private[records] val LengthAt = 8L
  private[records] val RecordsAt = 12L
  private val FirstNodeBytes = 64L

  /** As much as an encoder takes at once. */
  private val MaxNodeBytes = 32L * 1024

  private[records] val NoNode = 0L

  private val PageShift = 32
  private val OffsetMask = (1L << PageShift) - 1

  private def rowOf(partition: Int): Int = (partition & TableMask) * Fields

  private def pointer(page: Int, offset: Long): Long = ((page + 1L) << PageShift) | offset

  private def pageOf(node: Long): Int = (node >>> PageShift).toInt - 1

  private[records] def baseOf(pages: collection.IndexedSeq[MemoryBlock], node: Long): AnyRef =
    pages(pageOf(node)).getBaseObject

  private[records] def startOf(pages: collection.IndexedSeq[MemoryBlock], node: Long): Long =
    pages(pageOf(node)).getBaseOffset + (node & OffsetMask)
}
