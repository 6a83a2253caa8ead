// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.ShuffleWriter

/** One of Spark's own writers, whose records are counted on their way to it. */
private[lodestone] final class CountingShuffleWriter[K, V](
    inner: ShuffleWriter[K, V],
    counts: RecordCounts)
    extends ShuffleWriter[K, V] {

  override def write(records: Iterator[Product2[K, V]]): Unit =
    inner.write(counts.counting(records))

  override def stop(success: Boolean): Option[MapStatus] = inner.stop(success)

  override def getPartitionLengths(): Array[Long] = inner.getPartitionLengths()
}
