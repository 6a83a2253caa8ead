// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.lodestone.executor.push.records.OutputCheck

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
 * Spark's writer with a file for each partition. It leaves a block out, without an error, if the
 * file system does not find the file; and readers never ask for an empty block. So the map task
 * fails if the output is not as long as all files together.
 */
private[lodestone] final class WholeOutputWriter[K, V](
    inner: ShuffleWriter[K, V],
    files: WrittenBytes)
    extends WrappedShuffleWriter(inner) {
  override def write(records: Iterator[Product2[K, V]]): Unit = {
    super.write(records)
    OutputCheck.whole(files.bytes, getPartitionLengths().sum)
  }
}

/** Counts the bytes that a writer reports. */
private[lodestone] final class WrittenBytes(task: ShuffleWriteMetricsReporter)
    extends ShuffleWriteMetricsReporter {
  var bytes = 0L

  override private[spark] def incBytesWritten(count: Long): Unit = {
    bytes += count
    task.incBytesWritten(count)
  }
  override private[spark] def decBytesWritten(count: Long): Unit = {
    bytes -= count
    task.decBytesWritten(count)
  }
  override private[spark] def incRecordsWritten(count: Long): Unit = task.incRecordsWritten(count)
  override private[spark] def decRecordsWritten(count: Long): Unit = task.decRecordsWritten(count)
  override private[spark] def incWriteTime(nanos: Long): Unit = task.incWriteTime(nanos)
}
