// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}
import org.apache.spark.unsafe.memory.{MemoryAllocator, MemoryBlock}

/**
 * The serialized records of one map task, by partition, in pages of Spark's memory. If Spark has no
 * more memory, `takeAll` gets all records, and the pages are free again.
 *
 * Unlike Spark's own sorters it continues if Spark has no memory at all, with one small page of its
 * own: Spark's writers that do not sort need no memory of Spark's either.
 *
 * It asks Spark for an amount, and Spark grants what it has. An exception of Spark is never a lack
 * of memory: a consumer of the task could not spill, and some of its records are lost or twice in a
 * file. That ends the task, as in Spark.
 *
 * @param mostRecords
 *   at which memory counts as short (`spark.shuffle.spill.numElementsForceSpillThreshold`)
 */
private[push] final class RecordPages(
    memory: TaskMemoryManager,
    numPartitions: Int,
    mostRecords: Int,
    takeAll: PartitionedRecords => Unit,
    allocatorOf: MemoryMode => MemoryAllocator = RecordPages.allocatorOf)
    extends MemoryConsumer(memory, RecordPages.FirstPageBytes, memory.getTungstenMemoryMode) {
  import RecordPages._

  private val allocator = allocatorOf(memory.getTungstenMemoryMode)
  private val mostPageBytes = math.min(MostPageBytes, memory.pageSizeBytes())
  private val pages = ArrayBuffer.empty[MemoryBlock]
  private val chains = new PartitionChains(numPartitions, pages)
  private var ownPage: Option[MemoryBlock] = None

  /** The bytes of tables that Spark granted, and of others. */
  private var grantedTables = 0L
  private var ownTables = 0L

  /** The free part of the last page. */
  private var cursor = 0L
  private var end = 0L
  private var nextPageBytes = FirstPageBytes
  private var count = 0
  private var inserted = 0L
  private var peak = 0L

  def insert(bytes: Array[Byte], start: Int, length: Int, partition: Int): Unit = {
    if (length <= 0) throw new IllegalStateException("a record without bytes cannot be read again")
    if (count >= mostRecords) giveAway()
    if (!chains.hasRoom(partition, length)) addNode(partition, length)
    chains.append(partition, bytes, start, length)
    count += 1
    inserted += length
  }

  def recordBytes: Long = inserted
  def giveAll(): Unit = if (count > 0) giveAway()

  /** Returns all records. They are valid until the next call of another method. */
  def partitioned(): PartitionedRecords = chains.ended()

  /** Gives all memory back, also while the task runs. */
  def free(): Unit = {
    freePages()
    count = 0
    inserted = 0
  }

  def peakBytes: Long = math.max(peak, getUsed)

  /**
   * Frees memory only for this consumer, as Spark's own sorters do: in the middle of another
   * consumer's work these pages may not change.
   */
  override def spill(size: Long, trigger: MemoryConsumer): Long =
    if ((trigger ne this) || count == 0) {
      0L
    } else {
      val before = getUsed
      giveAway()
      before - getUsed
    }

  private def giveAway(): Unit = {
    takeAll(partitioned())
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

  /** Adds a node. A request for a page may give all records away. */
  private def addNode(partition: Int, length: Int): Unit = {
    val least = aligned(PartitionChains.HeadBytes + length)
    // A request for a page or a table may give the other away. The second time nothing is left to
    // give.
    while (!chains.hasTable(partition) || end - cursor < least) {
      if (chains.hasTable(partition)) nextPage(least) else nextTable(partition)
    }
    val wanted = math.max(least, aligned(chains.nextNodeBytes(partition)))
    val bytes = math.min(wanted, end - cursor)
    chains.addNode(partition, pages.length - 1, cursor, bytes)
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

  /** Returns a page twice as large as the last one, or as small as possible. */
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
        // The JVM has less memory than Spark believes, and Spark counts on our giving way.
        case _: OutOfMemoryError =>
          freeMemory(bytes)
          None
      }
    } else {
      None
    }

  /** Spark grants what it has. It throws if another consumer could not spill: see above. */
  private def isGranted(bytes: Long): Boolean = {
    val granted = acquireMemory(bytes)
    if (granted < bytes) freeMemory(granted)
    granted >= bytes
  }

  /** Makes a table. Some tables exist without Spark's memory before records must leave for one. */
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

  /** Returns the same page each time, or a larger one for a larger record. */
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
  private val MostPageBytes = 128L << 20

  /**
   * The least that Spark keeps for the next task. Pages double from here to Spark's own size, which
   * is made for large outputs: to clear such a page is most of the work of a small output.
   */
  private val FirstPageBytes = 1L << 20
  private val OwnTableBytes = FirstPageBytes

  private def allocatorOf(mode: MemoryMode): MemoryAllocator = mode match {
    case MemoryMode.ON_HEAP => MemoryAllocator.HEAP
    case MemoryMode.OFF_HEAP => MemoryAllocator.UNSAFE
  }

  private val Alignment = 8L

  private def aligned(bytes: Long): Long = (bytes + Alignment - 1) / Alignment * Alignment
}
