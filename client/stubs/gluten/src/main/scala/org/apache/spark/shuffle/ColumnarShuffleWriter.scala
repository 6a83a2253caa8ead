// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle

import org.apache.gluten.config.SortShuffleWriterType
import org.apache.gluten.libvelox.NativeCode

import org.apache.spark.SparkEnv
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.Utils

/**
 * Stands for backends-velox/src/main/scala/org/apache/spark/shuffle/ColumnarShuffleWriter.scala of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
class ColumnarShuffleWriter[K, V](
    resolver: IndexShuffleBlockResolver,
    handle: BaseShuffleHandle[K, V, V],
    mapId: Long,
    writeMetrics: ShuffleWriteMetricsReporter)
    extends ShuffleWriter[K, V] {
  private val dep = handle.dependency.asInstanceOf[ColumnarShuffleDependency[K, V, V]]
  private var lengths = new Array[Long](dep.partitioner.numPartitions)

  override def write(records: Iterator[Product2[K, V]]): Unit = {
    val code = NativeCode.LOADED.get()
    val file = Utils.tempFileWith(resolver.getDataFile(dep.shuffleId, mapId))
    val partitions = code.createLocalPartitionWriter(lengths.length, file.getPath)
    val isSort = dep.shuffleWriterType == SortShuffleWriterType
    val writer =
      code.createShuffleWriter(code.runtime().getHandle(), isSort, lengths.length, partitions)
    try {
      records.foreach { record =>
        val batch = record._2.asInstanceOf[ColumnarBatch]
        code.write(writer, batch.numRows, code.handleOf(batch))
        writeMetrics.incRecordsWritten(batch.numRows.toLong)
        batch.close()
      }
      lengths = code.stop(writer).getPartitionLengths
    } finally code.close(writer)
    resolver
      .writeMetadataFileAndCommit(dep.shuffleId, mapId, lengths, Array.emptyLongArray, file)
  }

  override def stop(success: Boolean): Option[MapStatus] =
    Some(MapStatus(SparkEnv.get.blockManager.shuffleServerId, lengths, mapId)).filter(_ => success)

  override def getPartitionLengths(): Array[Long] = lengths
}
