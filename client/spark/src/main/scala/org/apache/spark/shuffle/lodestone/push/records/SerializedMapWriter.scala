// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.io.{IOException, OutputStream}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.{ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.api.{ShuffleExecutorComponents, ShuffleMapOutputWriter}
import org.apache.spark.shuffle.lodestone.push.RecordCounts
import org.apache.spark.storage.ShuffleBlockId

/**
 * Writes the output of a map task where Spark's `UnsafeShuffleWriter` would, and the same to its readers.
 * That one makes new streams and asks the system to write for each block; this one for each output,
 * which is what counts where blocks are small.
 */
private[lodestone] final class SerializedMapWriter[K, V](
    dependency: ShuffleDependency[K, V, _],
    mapId: Long,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter,
    outputs: ShuffleExecutorComponents,
    counts: RecordCounts)
    extends ShuffleWriter[K, V] {
  private val env = SparkEnv.get
  private val numPartitions = dependency.partitioner.numPartitions
  private val encoder = FrameEncoder(env.conf, env.serializerManager)
  private val rowChecksums = RowChecksums(dependency)
  private val spills = ArrayBuffer.empty[SpilledRun]
  private val pages = new RecordPages(
    context.taskMemoryManager(),
    numPartitions,
    env.conf.get(config.SHUFFLE_SPILL_NUM_ELEMENTS_FORCE_SPILL_THRESHOLD),
    spill)
  private var records = 0L
  private var lengths: Array[Long] = _
  private var stopped = false

  override def write(rows: Iterator[Product2[K, V]]): Unit =
    try {
      collect(rows)
      lengths = writeOut()
    } finally {
      pages.free()
      spills.foreach(_.delete())
    }

  override def stop(success: Boolean): Option[MapStatus] =
    if (stopped || !success) {
      stopped = true
      pages.free()
      None
    } else {
      stopped = true
      context.taskMetrics().incPeakExecutionMemory(pages.peakBytes)
      Some(MapStatuses(env.blockManager.shuffleServerId, lengths, mapId, rowChecksums))
    }

  override def getPartitionLengths(): Array[Long] = lengths

  private def collect(rows: Iterator[Product2[K, V]]): Unit = {
    val partitioner = dependency.partitioner
    val input = RecordInput(dependency.serializer, pages)
    while (rows.hasNext) {
      val row = rows.next()
      val partition = partitioner.getPartition(row._1)
      counts.add(partition)
      rowChecksums.add(partition, row._1, row._2)
      records += 1
      input.add(partition, row._1, row._2)
    }
    input.finish()
  }

  /** Memory is short: what there is goes to a file, as it will stand in the output. */
  private def spill(held: PartitionedRecords): Unit = {
    val (_, file) = env.blockManager.diskBlockManager.createTempShuffleBlock()
    val run = new SpilledRun(file, numPartitions)
    spills += run
    context.taskMetrics().incMemoryBytesSpilled(pages.getUsed)
    run.write { out =>
      while (held.hasNext) {
        val partition = held.partition
        encode(held, partition, out)
        run.ended(partition, out.bytes)
      }
    }
    context.taskMetrics().incDiskBytesSpilled(run.bytes)
  }

  private def writeOut(): Array[Long] = {
    val output = outputs.createMapOutputWriter(dependency.shuffleId, mapId, numPartitions)
    var whole = false
    try {
      val checksums = new BlockChecksums(env.conf, numPartitions)
      val last = pages.partitioned()
      val runs = spills.map(_.open())
      try {
        var partition = 0
        while (partition < numPartitions) {
          writePartition(output, partition, last, runs, checksums)
          partition += 1
        }
      } finally {
        runs.foreach(_.close())
      }
      val written = output.commitAllPartitions(checksums.values).getPartitionLengths
      metrics.incBytesWritten(written.sum)
      metrics.incRecordsWritten(records)
      whole = true
      written
    } finally {
      if (!whole) output.abort(new IOException("the map task failed"))
    }
  }

  private def writePartition(
      output: ShuffleMapOutputWriter,
      partition: Int,
      last: PartitionedRecords,
      runs: collection.Seq[SpilledRun.Reader],
      checksums: BlockChecksums): Unit = {
    val inMemory = last.hasNext && last.partition == partition
    if (inMemory || runs.exists(_.has(partition))) {
      val out =
        new BlockOutput(output.getPartitionWriter(partition).openStream(), checksums.begin())
      runs.foreach(_.copy(partition, out))
      if (inMemory) encode(last, partition, out)
      out.close()
      metrics.incWriteTime(out.nanos)
      checksums.end(partition)
    }
  }

  private def encode(held: PartitionedRecords, partition: Int, out: OutputStream): Unit = {
    encoder.open(ShuffleBlockId(dependency.shuffleId, mapId, partition), out)
    while (held.hasNext && held.partition == partition) held.next(encoder)
    encoder.close()
  }
}
