// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/**
 * Records in the order of their partitions, and in the order of arrival within a partition. A
 * partition whose bytes differ from those that were added ends the task.
 */
private[push] final class PartitionedRecords(
    chains: PartitionChains,
    numPartitions: Int,
    pages: collection.IndexedSeq[MemoryBlock]) {
  import PartitionChains._

  private var at = -1
  private var node = NoNode
  private var sent = 0L
  nextPartition()

  def hasNext: Boolean = at < numPartitions
  def partition: Int = at

  /** Gives the records of the next node to a sink. Returns their number. */
  def next(to: RecordSink): Int = {
    val base = baseOf(pages, node)
    val start = startOf(pages, node)
    val length = Platform.getInt(base, start + LengthAt)
    to.records(base, start + HeadBytes, length)
    sent += length
    val count = Platform.getInt(base, start + RecordsAt)
    node = Platform.getLong(base, start)
    if (node == NoNode) {
      checkBytes()
      nextPartition()
    }
    count
  }

  private def checkBytes(): Unit = if (sent != chains.bytesOf(at)) {
    throw new IllegalStateException(
      s"the partition of rank $at has ${chains.bytesOf(at)} bytes of records, and gave $sent")
  }

  private def nextPartition(): Unit = {
    at = chains.nextFilled(at + 1)
    sent = 0
    if (hasNext) node = chains.firstOf(at)
  }
}

/** Takes records that lie one after another in memory. */
private[push] trait RecordSink {
  def records(base: AnyRef, offset: Long, length: Int): Unit
}
