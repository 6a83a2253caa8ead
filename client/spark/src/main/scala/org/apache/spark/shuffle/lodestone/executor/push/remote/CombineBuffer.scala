// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.apache.spark.{Aggregator, Partitioner}
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.util.collection.{PartitionedAppendOnlyMap, Spillable}

/**
 * Combines the values of each key before they are pushed. When memory is short it gives away all
 * keys, and begins again without any: reduce tasks combine the output of several maps in any case.
 */
private[remote] final class CombineBuffer[K, V, C](
    memory: TaskMemoryManager,
    aggregator: Aggregator[K, V, C],
    partitioner: Partitioner,
    combined: (Int, K, C) => Unit)
    extends Spillable[PartitionedAppendOnlyMap[K, C]](memory) {
  private var map = new PartitionedAppendOnlyMap[K, C]

  def insertAll(rows: Iterator[Product2[K, V]]): Unit = {
    var row: Product2[K, V] = null
    val update = (hasValue: Boolean, old: C) =>
      if (hasValue) aggregator.mergeValue(old, row._2) else aggregator.createCombiner(row._2)
    while (rows.hasNext) {
      addElementsRead()
      row = rows.next()
      map.changeValue((partitioner.getPartition(row._1), row._1), update)
      if (maybeSpill(map, map.estimateSize())) map = new PartitionedAppendOnlyMap[K, C]
    }
    spill(map)
  }

  /** All memory is given back. */
  def close(): Unit = {
    map = null
    releaseMemory()
  }

  override protected def spill(collection: PartitionedAppendOnlyMap[K, C]): Unit =
    collection.iterator.foreach { case ((partition, key), value) =>
      combined(partition, key, value)
    }

  /** It spills only for itself, and not in the middle of the work of another consumer. */
  override protected def forceSpill(): Boolean = false
}
