// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.ShuffleWriter
import org.apache.spark.shuffle.lodestone.executor.push.records.{OutputCheck, RecordCounts}

/** A writer that adds to another one. */
private[lodestone] sealed abstract class WrappedShuffleWriter[K, V](inner: ShuffleWriter[K, V])
    extends ShuffleWriter[K, V] {
  override def write(records: Iterator[Product2[K, V]]): Unit = inner.write(records)
  override def stop(success: Boolean): Option[MapStatus] = inner.stop(success)
  override def getPartitionLengths(): Array[Long] = inner.getPartitionLengths()
}

/** Calls `written` after the map output is written, on the thread of the task. */
private[lodestone] final class AfterWriteShuffleWriter[K, V](
    inner: ShuffleWriter[K, V],
    written: Array[Long] => Unit)
    extends WrappedShuffleWriter(inner) {
  override def stop(success: Boolean): Option[MapStatus] = {
    val status = super.stop(success)
    if (success && status.isDefined) Option(getPartitionLengths()).foreach(written)
    status
  }
}

/**
 * One of Spark's own writers. Its records are counted on their way to it, and the map task fails if
 * a partition that got records has no bytes. Spark's writer with a file for each partition leaves a
 * block out, without an error, if the file system does not find the file; and readers never ask for
 * an empty block.
 */
private[lodestone] final class CountingShuffleWriter[K, V](
    inner: ShuffleWriter[K, V],
    counts: RecordCounts)
    extends WrappedShuffleWriter(inner) {
  override def write(records: Iterator[Product2[K, V]]): Unit = {
    super.write(counts.counting(records))
    val lengths = getPartitionLengths()
    counts.filled.foreach(partition => OutputCheck.block(partition, lengths(partition)))
  }
}
