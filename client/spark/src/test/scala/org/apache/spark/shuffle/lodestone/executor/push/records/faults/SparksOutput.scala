// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.util.Properties

import org.apache.spark._
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.storage.ShuffleBlockId

/** The output of plain Spark's writer for the rows of a map task, without faults. */
private[records] final class SparksOutput private (
    dependency: ShuffleDependency[Any, Any, Any],
    status: MapStatus,
    val recordsWritten: Long) {

  /** Reads them like plain Spark. */
  def recordsIn(partition: Int): Iterator[(Any, Any)] =
    if (status.getSizeForBlock(partition) == 0) {
      Iterator.empty
    } else {
      val id = ShuffleBlockId(dependency.shuffleId, status.mapId, partition)
      val block = SparkEnv.get.shuffleManager.shuffleBlockResolver.getBlockData(id)
      val stream = SparkEnv.get.serializerManager.wrapStream(id, block.createInputStream())
      dependency.serializer.newInstance().deserializeStream(stream).asKeyValueIterator
    }

  def remove(): Unit = {
    SparkEnv.get.shuffleManager.unregisterShuffle(dependency.shuffleId)
    ()
  }
}

private[records] object SparksOutput {

  def of(
      dependency: ShuffleDependency[Any, Any, Any],
      mapId: Long,
      rows: Iterator[Product2[Any, Any]]): SparksOutput = {
    val memory = new TaskMemoryManager(plenty, 0)
    val context: TaskContext =
      new TaskContextImpl(0, 0, 0, mapId, 0, 1, memory, new Properties, null)
    val written = context.taskMetrics().shuffleWriteMetrics
    val writer = SparkEnv.get.shuffleManager
      .getWriter[Any, Any](dependency.shuffleHandle, mapId, context, written)
    try {
      writer.write(rows)
      new SparksOutput(dependency, writer.stop(success = true).get, written.recordsWritten)
    } finally {
      memory.cleanUpAllAllocatedMemory()
      ()
    }
  }

  private def plenty: UnifiedMemoryManager = {
    val conf = new SparkConf(false)
      .set("spark.testing.memory", (1L << 30).toString)
      .set("spark.testing.reservedMemory", "0")
    UnifiedMemoryManager(conf, 1)
  }
}
