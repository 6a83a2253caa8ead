// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import org.apache.spark.{Partitioner, ShuffleDependency}
import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs

/** Counts the records that a map task writes for each partition, on their way to its writer. */
private[lodestone] final class RecordCounts private (partitioner: Option[Partitioner]) {
  private val counts = new Array[Long](partitioner.fold(0)(_.numPartitions))

  def counting[K, V](records: Iterator[Product2[K, V]]): Iterator[Product2[K, V]] =
    partitioner match {
      case Some(known) =>
        records.map { record =>
          counts(known.getPartition(record._1)) += 1
          record
        }
      case None => records
    }

  /** Counts a record of a map task that does not combine. */
  def add(partition: Int): Unit = counts(partition) += 1

  /** The records of a partition, if the map task does not combine. */
  def in(reduceId: Int): Long = counts(reduceId)

  /** The partitions that have records, as far as known. */
  def filled: Iterator[Int] = counts.indices.iterator.filter(counts(_) > 0)

  /** All numbers, if they are known. */
  def packed: Option[PackedLongs] = partitioner.map(_ => PackedLongs(counts))

  /** The number of records, or -1 if it is unknown. */
  def of(reduceId: Int): Int =
    if (partitioner.isDefined && counts(reduceId) <= Int.MaxValue) counts(reduceId).toInt
    else RecordCounts.Unknown
}

private[lodestone] object RecordCounts {
  val Unknown: Int = -1

  def apply(partitioner: Partitioner): RecordCounts = new RecordCounts(Some(partitioner))

  /**
   * Counts nothing if the map side combines, because that leaves fewer records than arrive here.
   */
  def apply(dependency: ShuffleDependency[_, _, _]): RecordCounts =
    new RecordCounts(Some(dependency.partitioner).filterNot(_ => dependency.mapSideCombine))
}
