// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.memory.{MemoryConsumer, SparkOutOfMemoryError}
import org.apache.spark.memory.{TaskMemoryManager, TooLargePageException}
import org.apache.spark.unsafe.{Platform, UnsafeAlignedOffset}
import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/**
 * Serialized records of one map task, in pages of Spark's memory, and for each a pointer: partition,
 * page, offset. When Spark has no more memory for it `relieve` takes what there is, in the order of
 * partitions, and the pages are free again.
 *
 * The layout is that of Spark's `ShuffleExternalSorter`, with the same limits.
 *
 * @param mostRecords
 *   at which memory counts as short (`spark.shuffle.spill.numElementsForceSpillThreshold`)
 */
private[push] final class RecordPages(
    memory: TaskMemoryManager,
    mostRecords: Int,
    relieve: SortedRecords => Unit)
    extends MemoryConsumer(memory, RecordPages.FirstPageBytes, memory.getTungstenMemoryMode) {
  import RecordPages._

  private val lengthBytes = UnsafeAlignedOffset.getUaoSize
  private val mostPageBytes = math.min(1L << OffsetBits, memory.pageSizeBytes())
  private val pages = ArrayBuffer.empty[MemoryBlock]
  private var page: MemoryBlock = _
  private var cursor = 0L
  private var nextPageBytes = FirstPageBytes
  private var pointers: LongArray = allocateArray(FirstPointers)
  private var count = 0
  private var peak = 0L

  def insert(record: Array[Byte], length: Int, partition: Int): Unit = {
    if (count >= mostRecords) giveAway()
    makeRoomForPointer()
    val needed = length + lengthBytes
    if (page == null || cursor + needed > page.getBaseOffset + page.size()) nextPage(needed)
    val base = page.getBaseObject
    val address = memory.encodePageNumberAndOffset(page, cursor)
    UnsafeAlignedOffset.putSize(base, cursor, length)
    Platform.copyMemory(record, Platform.BYTE_ARRAY_OFFSET, base, cursor + lengthBytes, length)
    cursor += needed
    pointers.set(count, pack(address, partition))
    count += 1
  }

  /** All that is here. They are only valid until the next call of anything else. */
  def sorted(): SortedRecords = {
    val first = RadixSort.sort(pointers, count.toLong, FirstKeyByte, LastKeyByte, false, false)
    new SortedRecords(memory, pointers, first, count)
  }

  /** Gives all memory back, also in the middle. */
  def free(): Unit = {
    freePages()
    if (pointers != null) {
      freeArray(pointers)
      pointers = null
    }
  }

  /** The most memory that it had. */
  def peakBytes: Long = math.max(peak, getUsed)

  /** Only for itself, as Spark's own does: in the middle of another's work is no time for ours. */
  override def spill(size: Long, trigger: MemoryConsumer): Long =
    if ((trigger ne this) || count == 0) {
      0L
    } else {
      val before = getUsed
      giveAway()
      before - getUsed
    }

  private def giveAway(): Unit = {
    relieve(sorted())
    count = 0
    freePages()
  }

  private def freePages(): Unit = {
    peak = peakBytes
    pages.foreach(freePage)
    pages.clear()
    page = null
  }

  /** To ask for the page may give away all that there is. */
  private def nextPage(needed: Int): Unit = {
    val fresh = allocatePage(math.max(needed.toLong, nextPageBytes))
    nextPageBytes = math.min(mostPageBytes, nextPageBytes * 2)
    pages += fresh
    page = fresh
    cursor = fresh.getBaseOffset
  }

  /** The sort needs as much room again as there are pointers. To ask for it may give all away. */
  private def makeRoomForPointer(): Unit = if (isFull) {
    val larger =
      try {
        Some(allocateArray(pointers.size() * 2))
      } catch {
        case _: TooLargePageException => None
        case noMemory: SparkOutOfMemoryError => if (isFull) throw noMemory else None
      }
    larger match {
      case Some(array) if isFull =>
        Platform.copyMemory(
          pointers.getBaseObject,
          pointers.getBaseOffset,
          array.getBaseObject,
          array.getBaseOffset,
          count * 8L)
        freeArray(pointers)
        pointers = array
      case Some(array) => freeArray(array)
      case None => if (isFull) giveAway()
    }
  }

  private def isFull: Boolean = count >= pointers.size() / 2
}

private[push] object RecordPages {

  /** As `spark.shuffle.sort.initialBufferSize`. */
  private val FirstPointers = 4096L

  /** Of a pointer, the bytes that hold the partition. */
  private val FirstKeyByte = 5
  private val LastKeyByte = 7

  /** Spark's `PackedRecordPointer`: 24 bits of partition, 13 of page, 27 of offset. */
  private val OffsetBits = 27
  private val PageOffsetBits = 51
  private val OffsetMask = (1L << OffsetBits) - 1
  private val PageMask = (1L << 13) - 1

  /** Most partitions that a pointer can tell apart. */
  val MaxPartitions: Int = 1 << 24

  /**
   * The least that Spark keeps for the next task. Pages double from there to Spark's own size: that one
   * is made for large outputs, and to clear it is most of the work where outputs are small.
   */
  private val FirstPageBytes = 1L << 20

  private def pack(address: Long, partition: Int): Long = {
    val page = address >>> PageOffsetBits
    (partition.toLong << 40) | (page << OffsetBits) | (address & OffsetMask)
  }

  private[records] def partitionOf(pointer: Long): Int = (pointer >>> 40).toInt

  private[records] def addressOf(pointer: Long): Long =
    (((pointer >>> OffsetBits) & PageMask) << PageOffsetBits) | (pointer & OffsetMask)
}

/** Records in the order of their partitions; within one, as they came. */
private[push] final class SortedRecords(
    memory: TaskMemoryManager,
    pointers: LongArray,
    first: Int,
    count: Int) {
  private val lengthBytes = UnsafeAlignedOffset.getUaoSize
  private var at = first
  private val end = first + count

  def hasNext: Boolean = at < end

  /** Of the next record. */
  def partition: Int = RecordPages.partitionOf(pointers.get(at))

  /** Gives the next record away. */
  def next(to: RecordSink): Unit = {
    val address = RecordPages.addressOf(pointers.get(at))
    at += 1
    val base = memory.getPage(address)
    val offset = memory.getOffsetInPage(address)
    val length = UnsafeAlignedOffset.getSize(base, offset)
    to.record(base, offset + lengthBytes, length)
  }
}

/** Takes records where they are in memory. */
private[push] trait RecordSink {
  def record(base: AnyRef, offset: Long, length: Int): Unit
}
