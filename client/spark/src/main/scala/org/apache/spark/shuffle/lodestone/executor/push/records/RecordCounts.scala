// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs

/**
 * The records that a map task has taken for each partition. Lodestone's writer counts them where it
 * asks the partitioner: asked twice, a user's partitioner may give another answer.
 */
private[lodestone] final class RecordCounts(numPartitions: Int) {
  private val counts = new Array[Long](numPartitions)

  def add(partition: Int): Unit = counts(partition) += 1

  /** The records of a partition. */
  def in(reduceId: Int): Long = counts(reduceId)

  /** All numbers. */
  def packed: PackedLongs = PackedLongs(counts)

  /** The number for a segment, or -1 if it is too large for one. */
  def of(reduceId: Int): Int =
    if (counts(reduceId) <= Int.MaxValue) counts(reduceId).toInt else RecordCounts.Unknown
}

private[lodestone] object RecordCounts {
  val Unknown: Int = -1
}
