// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}
import org.apache.spark.unsafe.memory.{MemoryAllocator, MemoryBlock}

/**
 * Serialized records of one map task, in pages of Spark's memory, those of each partition together. When
 * Spark has no more memory for it `relieve` takes what there is, and the pages are free again.
 *
 * Other than Spark's own sorters it goes on when Spark has no memory at all for it, with one small page of
 * its own: what Spark writes without sorting, it writes without asking for memory.
 *
 * Want of memory is told from trouble by asking for an amount, of which Spark grants what there is. What
 * Spark throws meanwhile is never want of memory: a consumer of the task, this one or another, could not
 * spill, and some of its records are gone or stand in a file twice. It ends the task, here as in Spark.
 *
 * @param mostRecords
 *   at which memory counts as short (`spark.shuffle.spill.numElementsForceSpillThreshold`)
 */
private[push] final class RecordPages(
    memory: TaskMemoryManager,
    numPartitions: Int,
    mostRecords: Int,
    relieve: PartitionedRecords => Unit)
    extends MemoryConsumer(memory, RecordPages.FirstPageBytes, memory.getTungstenMemoryMode) {
  import RecordPages._

  private val allocator = memory.getTungstenMemoryMode match {
    case MemoryMode.ON_HEAP => MemoryAllocator.HEAP
    case MemoryMode.OFF_HEAP => MemoryAllocator.UNSAFE
  }
  private val mostPageBytes = math.min(MostPageBytes, memory.pageSizeBytes())
  private val pages = ArrayBuffer.empty[MemoryBlock]
  private val chains = new PartitionChains(numPartitions, pages)
  private var ownPage: Option[MemoryBlock] = None

  /** Of tables of partitions: asked of Spark, and not. */
  private var grantedTables = 0L
  private var ownTables = 0L

  /** What is free of the last page. */
  private var cursor = 0L
  private var end = 0L
  private var nextPageBytes = FirstPageBytes
  private var count = 0
  private var inserted = 0L
  private var peak = 0L

  /** Takes `length` of these bytes from `start` on. */
  def insert(bytes: Array[Byte], start: Int, length: Int, partition: Int): Unit = {
    if (length <= 0) throw new IllegalStateException("a record without bytes cannot be read again")
    if (count >= mostRecords) giveAway()
    if (!chains.hasRoom(partition, length)) addChunk(partition, length)
    chains.append(partition, bytes, start, length)
    count += 1
    inserted += length
  }

  /** Of the records that are here. */
  def recordBytes: Long = inserted

  /** Does as if memory were short. */
  def giveAll(): Unit = if (count > 0) giveAway()

  /** All that is here. They are only valid until the next call of anything else. */
  def partitioned(): PartitionedRecords = chains.ended()

  /** Gives all memory back, also in the middle. */
  def free(): Unit = {
    freePages()
    count = 0
    inserted = 0
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
    relieve(partitioned())
    free()
  }

  private def freePages(): Unit = {
    peak = peakBytes
    chains.clear()
    for (page <- pages if !ownPage.contains(page)) {
      val bytes = page.size()
      allocator.free(page)
      freeMemory(bytes)
    }
    pages.clear()
    cursor = 0
    end = 0
    freeMemory(grantedTables)
    grantedTables = 0
    ownTables = 0
  }

  /** To ask for a page may give away all that there is. */
  private def addChunk(partition: Int, length: Int): Unit = {
    val least = aligned(PartitionChains.HeadBytes + length)
    // One may give away what was made for the other; the second time there is nothing to give away.
    while (!chains.hasTable(partition) || end - cursor < least) {
      if (chains.hasTable(partition)) nextPage(least) else nextTable(partition)
    }
    val wanted = math.max(least, aligned(chains.nextChunkBytes(partition)))
    val bytes = math.min(wanted, end - cursor)
    chains.addChunk(partition, pages.length - 1, cursor, bytes)
    cursor += bytes
  }

  private def nextPage(needed: Long): Unit = {
    val fresh = managedPage(needed).getOrElse {
      if (pages.nonEmpty) giveAway()
      pageOfOurOwn(needed)
    }
    pages += fresh
    cursor = fresh.getBaseOffset
    end = cursor + fresh.size() / Alignment * Alignment
  }

  /** Twice as large as the last one, or as small as it may be. */
  private def managedPage(needed: Long): Option[MemoryBlock] = {
    val large = allocate(math.max(needed, nextPageBytes))
    nextPageBytes =
      if (large.isDefined) math.min(mostPageBytes, nextPageBytes * 2) else FirstPageBytes
    large.orElse(allocate(needed))
  }

  private def allocate(bytes: Long): Option[MemoryBlock] =
    if (isGranted(bytes)) {
      try {
        Some(allocator.allocate(bytes))
      } catch {
        // The JVM's own: Spark thought that there was more than there is, and counts on our giving way.
        case _: OutOfMemoryError =>
          freeMemory(bytes)
          None
      }
    } else {
      None
    }

  /** Spark grants what there is. It throws when someone could not spill: see above. */
  private def isGranted(bytes: Long): Boolean = {
    val granted = acquireMemory(bytes)
    if (granted < bytes) freeMemory(granted)
    granted >= bytes
  }

  /** A table is small; some are made without Spark's memory before records have to go for it. */
  private def nextTable(partition: Int): Unit = {
    val bytes = chains.tableBytes(partition)
    if (isGranted(bytes)) {
      grantedTables += bytes
    } else {
      if (ownTables + bytes > OwnTableBytes && count > 0) giveAway()
      ownTables += bytes
    }
    chains.makeTable(partition)
  }

  /** The same again and again; a record that is larger has a larger one. */
  private def pageOfOurOwn(needed: Long): MemoryBlock = {
    val bytes = math.max(needed, FirstPageBytes)
    val page = ownPage.filter(_.size() >= bytes).getOrElse {
      MemoryBlock.fromLongArray(new Array[Long](((bytes + 7) / 8).toInt))
    }
    ownPage = Some(page)
    page
  }
}

private[push] object RecordPages {

  /** As in Spark: what a page has at most, however much memory there is. */
  private val MostPageBytes = 128L << 20

  /**
   * The least that Spark keeps for the next task. Pages double from there to Spark's own size: that one
   * is made for large outputs, and to clear it is most of the work where outputs are small.
   */
  private val FirstPageBytes = 1L << 20

  /** As much as the page of our own. */
  private val OwnTableBytes = FirstPageBytes

  private val Alignment = 8L

  private def aligned(bytes: Long): Long = (bytes + Alignment - 1) / Alignment * Alignment
}
