// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.apache.spark.{Aggregator, ShuffleDependency, TaskContext}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.lodestone.executor.push.SegmentBuffers
import org.apache.spark.shuffle.lodestone.executor.push.records.{MapStatuses, RowChecksums}
import org.apache.spark.shuffle.lodestone.plan._

/**
 * Writes the output of a map task to services, while the task runs. Records are collected in
 * memory; whenever there are enough of them, or memory is short, they are pushed. The executor
 * writes nothing to a disk.
 */
private[remote] final class RemoteMapWriter[K, V](
    dependency: ShuffleDependency[K, V, _],
    format: BlockFormat,
    push: RequiredPush,
    buffers: SegmentBuffers,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter,
    report: DriverMessage => Unit)
    extends ShuffleWriter[K, V] {
  private val partitioner = dependency.partitioner
  private val memory = context.taskMemoryManager()
  private val segments = new SegmentWriter(push, buffers, partitioner.numPartitions, memory)
  private val rowChecksums = RowChecksums(dependency)
  private val collector = RecordCollector(dependency, format, memory, segments)
  private var records = 0L
  private var lengths: Array[Long] = _
  private var status: Option[MapStatus] = None
  private var isOver = false

  override def write(rows: Iterator[Product2[K, V]]): Unit =
    try {
      collect(rows)
      collector.finish()
      segments.end()
      val beganNs = System.nanoTime()
      val output = push.commit()
      metrics.incWriteTime(System.nanoTime() - beganNs + segments.waitedNanos)
      isOver = true
      lengths = segments.lengths
      val sizes = collector.sizes(lengths)
      reportOn(output, sizes.sum)
      val attempt = push.attempt
      val location = output.location(attempt.shuffleId)
      status = Some(MapStatuses(location, sizes, attempt.mapId, rowChecksums))
    } finally {
      // First, so that streams which are closed next do not wait for memory.
      segments.close()
      try collector.close()
      finally if (!isOver) push.abort()
    }

  override def stop(success: Boolean): Option[MapStatus] = {
    if (!success || !isOver) push.abort()
    if (success) status else None
  }

  override def getPartitionLengths(): Array[Long] = lengths

  private def collect(rows: Iterator[Product2[K, V]]): Unit = dependency.aggregator match {
    case Some(aggregator) if dependency.mapSideCombine =>
      combine(rows, aggregator.asInstanceOf[Aggregator[K, V, Any]])
    case _ =>
      while (rows.hasNext) {
        val row = rows.next()
        val partition = partitioner.getPartition(row._1)
        rowChecksums.add(partition, row._1, row._2)
        add(partition, row._1, row._2)
      }
  }

  private def combine(rows: Iterator[Product2[K, V]], aggregator: Aggregator[K, V, Any]): Unit = {
    val buffer = new CombineBuffer[K, V, Any](memory, aggregator, partitioner, add(_, _, _))
    try buffer.insertAll(rows)
    finally buffer.close()
  }

  private def add(partition: Int, key: Any, value: Any): Unit = {
    val rank = segments.rankOf(partition)
    records += 1
    segments.expect(rank)
    collector.add(rank, key, value)
  }

  private def reportOn(output: RemoteOutput, size: Long): Unit = {
    val length = lengths.sum
    metrics.incBytesWritten(length)
    metrics.incRecordsWritten(records)
    context.taskMetrics().incPeakExecutionMemory(collector.peakBytes)
    report(push.pushed(output, segments.segments, length))
    for (bytes <- collector.encoded)
      report(MapEncoded(push.attempt.shuffleId, bytes, length, size))
  }
}
