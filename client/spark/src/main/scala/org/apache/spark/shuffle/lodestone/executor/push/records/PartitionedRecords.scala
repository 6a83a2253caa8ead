// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/**
 * Records in the order of their partitions; within one, as they came. They are given away chunk by chunk.
 * A partition that gives other bytes than were put into it ends the task.
 */
private[push] final class PartitionedRecords(
    chains: PartitionChains,
    numPartitions: Int,
    pages: collection.IndexedSeq[MemoryBlock]) {
  import PartitionChains._

  private var at = -1
  private var chunk = NoChunk
  private var sent = 0L
  nextPartition()

  def hasNext: Boolean = at < numPartitions

  /** Of the next records. */
  def partition: Int = at

  /** Gives the next records away, and says how many there are. */
  def next(to: RecordSink): Int = {
    val base = baseOf(pages, chunk)
    val start = startOf(pages, chunk)
    val length = Platform.getInt(base, start + LengthAt)
    to.records(base, start + HeadBytes, length)
    sent += length
    val count = Platform.getInt(base, start + RecordsAt)
    chunk = Platform.getLong(base, start)
    if (chunk == NoChunk) {
      checkBytes()
      nextPartition()
    }
    count
  }

  private def checkBytes(): Unit = if (sent != chains.bytesOf(at)) {
    throw new IllegalStateException(
      s"the partition at place $at has ${chains.bytesOf(at)} bytes of records, and gave $sent")
  }

  private def nextPartition(): Unit = {
    at = chains.nextFilled(at + 1)
    sent = 0
    if (hasNext) chunk = chains.firstOf(at)
  }
}

/** Takes records, which stand one after the other, where they are in memory. */
private[push] trait RecordSink {
  def records(base: AnyRef, offset: Long, length: Int): Unit
}
