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
 * The layout is that of Spark's `ShuffleExternalSorter`, with the same limits. Other than that one it
 * goes on when Spark has no memory at all for it, with one small page of its own: what Spark writes
 * without sorting, it writes without asking for memory.
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
  private var ownPage: Option[MemoryBlock] = None
  private var page: MemoryBlock = _
  private var cursor = 0L
  private var nextPageBytes = FirstPageBytes
  private val firstPointers =
    new LongArray(MemoryBlock.fromLongArray(new Array[Long](FirstPointers)))
  private var pointers = firstPointers
  private var count = 0
  private var inserted = 0L
  private var peak = 0L

  /** Takes `length` of these bytes from `start` on. */
  def insert(bytes: Array[Byte], start: Int, length: Int, partition: Int): Unit = {
    if (length <= 0) throw new IllegalStateException("a record without bytes cannot be read again")
    if (count >= mostRecords) giveAway()
    makeRoomForPointer()
    val needed = length + lengthBytes
    if (page == null || cursor + needed > page.getBaseOffset + page.size()) nextPage(needed)
    val base = page.getBaseObject
    UnsafeAlignedOffset.putSize(base, cursor, length)
    val from = Platform.BYTE_ARRAY_OFFSET.toLong + start
    Platform.copyMemory(bytes, from, base, cursor + lengthBytes, length)
    pointers.set(count, pack(partition, pages.length - 1, cursor - page.getBaseOffset))
    cursor += needed
    count += 1
    inserted += needed
  }

  /** Of the records that are here. */
  def recordBytes: Long = inserted

  /** Does as if memory were short. */
  def giveAll(): Unit = if (count > 0) giveAway()

  /** All that is here. They are only valid until the next call of anything else. */
  def sorted(): SortedRecords = {
    val first = RadixSort.sort(pointers, count.toLong, FirstKeyByte, LastKeyByte, false, false)
    new SortedRecords(pages, pointers, first, count)
  }

  /** Gives all memory back, also in the middle. */
  def free(): Unit = {
    freePages()
    count = 0
    inserted = 0
    if (pointers ne firstPointers) freeArray(pointers)
    pointers = firstPointers
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
    inserted = 0
    freePages()
  }

  private def freePages(): Unit = {
    peak = peakBytes
    pages.filterNot(ownPage.contains).foreach(freePage)
    pages.clear()
    page = null
  }

  /** To ask for the page may give away all that there is. */
  private def nextPage(needed: Int): Unit = {
    if (pages.length == MostPages) giveAway()
    val fresh = managedPage(needed).getOrElse {
      if (pages.nonEmpty) giveAway()
      pageOfOurOwn(needed)
    }
    pages += fresh
    page = fresh
    cursor = fresh.getBaseOffset
  }

  /** Twice as large as the last one, or as small as it may be. */
  private def managedPage(needed: Int): Option[MemoryBlock] = {
    val large = allocate(math.max(needed.toLong, nextPageBytes))
    nextPageBytes =
      if (large.isDefined) math.min(mostPageBytes, nextPageBytes * 2) else FirstPageBytes
    large.orElse(allocate(needed.toLong))
  }

  private def allocate(bytes: Long): Option[MemoryBlock] =
    try {
      Some(allocatePage(bytes))
    } catch {
      case _: SparkOutOfMemoryError => None
    }

  /** The same again and again; a record that is larger has a larger one. */
  private def pageOfOurOwn(needed: Int): MemoryBlock = {
    val bytes = math.max(needed.toLong, FirstPageBytes)
    val page = ownPage.filter(_.size() >= bytes).getOrElse {
      MemoryBlock.fromLongArray(new Array[Long](((bytes + 7) / 8).toInt))
    }
    ownPage = Some(page)
    page
  }

  /** The sort needs as much room again as there are pointers. To ask for it may give all away. */
  private def makeRoomForPointer(): Unit = if (isFull) {
    val larger =
      try {
        Some(allocateArray(pointers.size() * 2))
      } catch {
        case _: TooLargePageException | _: SparkOutOfMemoryError => None
      }
    larger match {
      case Some(array) if isFull => replacePointers(array)
      case Some(array) => freeArray(array)
      case None => if (isFull) giveAway()
    }
  }

  private def replacePointers(larger: LongArray): Unit = {
    Platform.copyMemory(
      pointers.getBaseObject,
      pointers.getBaseOffset,
      larger.getBaseObject,
      larger.getBaseOffset,
      count * 8L)
    if (pointers ne firstPointers) freeArray(pointers)
    pointers = larger
  }

  private def isFull: Boolean = count >= pointers.size() / 2
}

private[push] object RecordPages {

  /** As `spark.shuffle.sort.initialBufferSize`. */
  private val FirstPointers = 4096

  /** Of a pointer, the bytes that hold the partition. */
  private val FirstKeyByte = 5
  private val LastKeyByte = 7

  /** As Spark's `PackedRecordPointer`: 24 bits of partition, 13 of page, 27 of offset. */
  private val PartitionShift = 40
  private val OffsetBits = 27
  private val MostPages = 1 << (PartitionShift - OffsetBits)

  /**
   * The least that Spark keeps for the next task. Pages double from there to Spark's own size: that one
   * is made for large outputs, and to clear it is most of the work where outputs are small.
   */
  private val FirstPageBytes = 1L << 20

  private def pack(partition: Int, page: Int, offset: Long): Long =
    (partition.toLong << PartitionShift) | (page.toLong << OffsetBits) | offset

  private[records] def partitionOf(pointer: Long): Int = (pointer >>> PartitionShift).toInt

  private[records] def pageOf(pointer: Long): Int = (pointer >>> OffsetBits).toInt & (MostPages - 1)

  private[records] def offsetOf(pointer: Long): Long = pointer & ((1L << OffsetBits) - 1)
}

/** Records in the order of their partitions; within one, as they came. */
private[push] final class SortedRecords(
    pages: collection.IndexedSeq[MemoryBlock],
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
    val pointer = pointers.get(at)
    at += 1
    val page = pages(RecordPages.pageOf(pointer))
    val base = page.getBaseObject
    val offset = page.getBaseOffset + RecordPages.offsetOf(pointer)
    val length = UnsafeAlignedOffset.getSize(base, offset)
    to.record(base, offset + lengthBytes, length)
  }
}

/** Takes records where they are in memory. */
private[push] trait RecordSink {
  def record(base: AnyRef, offset: Long, length: Int): Unit
}
