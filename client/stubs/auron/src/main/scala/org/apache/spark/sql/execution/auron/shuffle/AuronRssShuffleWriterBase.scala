// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.auron.shuffle

import java.util.UUID

import org.apache.spark.{Partition, ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleHandle, ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.sql.auron.NativeRDD

import org.apache.auron.jni.JniBridge

/**
 * Stands for the class of this name of Apache Auron (releases 7.0.0, 8.0.0; commit 4b0a3451,
 * spark-extension/src/main/scala/org/apache/spark/sql/execution/auron/shuffle), and does what that
 * one does around its native code.
 */
abstract class AuronRssShuffleWriterBase[K, V](metrics: ShuffleWriteMetricsReporter)
    extends ShuffleWriter[K, V] {
  private var pushes: RssPartitionWriterBase = _
  private var mapId = 0

  def getRssPartitionWriter(
      handle: ShuffleHandle,
      mapId: Int,
      metrics: ShuffleWriteMetricsReporter,
      numPartitions: Int): RssPartitionWriterBase

  def nativeRssShuffleWrite(
      nativeShuffleRDD: NativeRDD,
      dep: ShuffleDependency[_, _, _],
      mapId: Int,
      context: TaskContext,
      partition: Partition,
      numPartitions: Int): Unit = {
    this.mapId = mapId
    pushes = getRssPartitionWriter(dep.shuffleHandle, mapId, metrics, numPartitions)
    var success = false
    try {
      val name = s"RssPartitionWriter:${UUID.randomUUID()}"
      JniBridge.putResource(name, pushes)
      success = nativeShuffleRDD.executeNativePlan(name, partition, context).isEmpty
    } finally {
      pushes.close(success)
    }
  }

  def rssStop(success: Boolean): Option[MapStatus]

  override def getPartitionLengths(): Array[Long] = pushes.getPartitionLengthMap

  override def write(records: Iterator[Product2[K, V]]): Unit =
    throw new UnsupportedOperationException("native code writes")

  override def stop(success: Boolean): Option[MapStatus] =
    if (!success) None
    else {
      def own = MapStatus(
        SparkEnv.get.blockManager.shuffleServerId,
        pushes.getPartitionLengthMap,
        mapId.toLong)
      rssStop(success).orElse(Some(own))
    }
}
