// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.util.Arrays

/** The blocks of a spilled run that are not empty, in the order of their partitions. */
private[records] final class RunBlocks {
  private var partitions = new Array[Int](RunBlocks.FirstCapacity)
  private var lengths = new Array[Long](RunBlocks.FirstCapacity)
  private var counts = new Array[Long](RunBlocks.FirstCapacity)
  private var filled = 0
  private var end = 0L

  /** The next block is written: it ends at this byte of the run. */
  def ended(partition: Int, at: Long, records: Long): Unit = {
    if (filled == partitions.length) grow()
    partitions(filled) = partition
    lengths(filled) = at - end
    counts(filled) = records
    filled += 1
    end = at
  }

  def count: Int = filled

  /** Of all blocks. */
  def bytes: Long = end

  def partition(i: Int): Int = partitions(i)

  def length(i: Int): Long = lengths(i)

  def records(i: Int): Long = counts(i)

  private def grow(): Unit = {
    partitions = Arrays.copyOf(partitions, filled * 2)
    lengths = Arrays.copyOf(lengths, filled * 2)
    counts = Arrays.copyOf(counts, filled * 2)
  }
}

private[records] object RunBlocks {
  private val FirstCapacity = 64
}
