// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import java.util.BitSet

import org.apache.spark.Partitioner
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.ShuffleWriter
import org.apache.spark.shuffle.lodestone.push.records.OutputCheck

/**
 * Spark's writer that has a file for each partition leaves a block out, and says nothing, when the file
 * system fails to say that the file is there. Its readers never ask for an empty block: rows would be
 * gone. So a map task fails if a partition that got records has no bytes.
 */
private[lodestone] final class WholeBlocksWriter[K, V](
    inner: ShuffleWriter[K, V],
    partitioner: Partitioner)
    extends ShuffleWriter[K, V] {
  private val filled = new BitSet(partitioner.numPartitions)

  override def write(records: Iterator[Product2[K, V]]): Unit = {
    inner.write(records.map { record =>
      filled.set(partitioner.getPartition(record._1))
      record
    })
    val lengths = inner.getPartitionLengths()
    var partition = filled.nextSetBit(0)
    while (partition >= 0) {
      OutputCheck.block(partition, lengths(partition))
      partition = filled.nextSetBit(partition + 1)
    }
  }

  override def stop(success: Boolean): Option[MapStatus] = inner.stop(success)

  override def getPartitionLengths(): Array[Long] = inner.getPartitionLengths()
}
