// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}

/**
 * A number for each partition, in tables of neighbours. A table exists from the first number of one
 * of them on, because a task may have millions of partitions and records for few. Its memory is
 * Spark's if Spark has some.
 */
private[push] final class PartitionLongs(numPartitions: Int, memory: TaskMemoryManager)
    extends MemoryConsumer(memory, memory.pageSizeBytes(), MemoryMode.ON_HEAP) {
  import PartitionLongs._

  private val tables = new Array[Array[Long]]((numPartitions + TableMask) >>> TableShift)

  def add(partition: Int, amount: Long): Unit = {
    if (!isMade(partition)) make(partition)
    tables(partition >>> TableShift)(partition & TableMask) += amount
  }

  def isMade(partition: Int): Boolean = tables(partition >>> TableShift) != null

  /**
   * Makes the table of this partition. The task needs it even if Spark has no memory for it. Spark
   * may let the task wait for memory of other tasks.
   */
  def make(partition: Int): Unit = {
    val length = math.min(1 << TableShift, numPartitions - (partition & ~TableMask))
    acquireMemory(length.toLong * java.lang.Long.BYTES)
    tables(partition >>> TableShift) = new Array[Long](length)
  }

  def apply(partition: Int): Long = {
    val table = tables(partition >>> TableShift)
    if (table == null) 0 else table(partition & TableMask)
  }

  def firstNonZero: Option[Int] = {
    val partitions = tables.indices.iterator.filter(tables(_) != null).flatMap { i =>
      (i << TableShift) until math.min((i + 1) << TableShift, numPartitions)
    }
    partitions.find(apply(_) != 0)
  }

  /** Gives Spark's memory back, also while the task runs. */
  def free(): Unit = freeMemory(getUsed)

  /** Frees nothing: all numbers are in use. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
}

private[push] object PartitionLongs {
  private val TableShift = 10
  private val TableMask = (1 << TableShift) - 1
}
