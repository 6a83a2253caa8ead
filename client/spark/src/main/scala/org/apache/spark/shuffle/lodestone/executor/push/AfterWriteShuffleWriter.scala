// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.ShuffleWriter

/** Calls `written` after the map output is written, on the thread of the task. */
private[lodestone] final class AfterWriteShuffleWriter[K, V](
    inner: ShuffleWriter[K, V],
    written: Array[Long] => Unit)
    extends ShuffleWriter[K, V] {

  override def write(records: Iterator[Product2[K, V]]): Unit = inner.write(records)

  override def stop(success: Boolean): Option[MapStatus] = {
    val status = inner.stop(success)
    if (success && status.isDefined) Option(inner.getPartitionLengths()).foreach(written)
    status
  }

  override def getPartitionLengths(): Array[Long] = inner.getPartitionLengths()
}
