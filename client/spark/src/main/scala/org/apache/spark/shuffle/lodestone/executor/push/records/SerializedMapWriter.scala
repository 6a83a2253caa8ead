// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{IOException, OutputStream}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.{ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.api.{ShuffleExecutorComponents, ShuffleMapOutputWriter}
import org.apache.spark.shuffle.lodestone.executor.rows.BlockEncryption
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, MapEncoded}
import org.apache.spark.storage.ShuffleBlockId

/**
 * Writes the output of a map task in place of Spark's `UnsafeShuffleWriter`. Spark makes new
 * streams and asks the system to write for each block, this writer for each output. That saves most
 * if blocks are small.
 */
private[lodestone] final class SerializedMapWriter[K, V](
    dependency: ShuffleDependency[K, V, _],
    mapId: Long,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter,
    outputs: ShuffleExecutorComponents,
    spillFiles: SpillFiles,
    val counts: RecordCounts,
    format: BlockFormat)
    extends ShuffleWriter[K, V] {
  private val env = SparkEnv.get
  private val numPartitions = dependency.partitioner.numPartitions
  private val encoder = BlockEncoder(format, dependency.serializer, numPartitions, env)
  private val encryption = BlockEncryption()
  private val rowChecksums = RowChecksums(dependency)
  private val spills = ArrayBuffer.empty[Spill]
  private val pages = new RecordPages(
    context.taskMemoryManager(),
    numPartitions,
    env.conf.get(config.SHUFFLE_SPILL_NUM_ELEMENTS_FORCE_SPILL_THRESHOLD),
    spill)
  private var records = 0L
  private var lengths: Array[Long] = _
  private var sizes: Array[Long] = _
  private var stopped = false

  override def write(rows: Iterator[Product2[K, V]]): Unit =
    try {
      collect(rows)
      lengths = writeOut()
      sizes = encoder.sizes(lengths)
    } finally {
      try {
        encoder.abandon()
      } finally {
        pages.free()
        spills.foreach(_.delete())
      }
    }

  override def stop(success: Boolean): Option[MapStatus] =
    if (stopped || !success) {
      stopped = true
      pages.free()
      None
    } else {
      stopped = true
      context.taskMetrics().incPeakExecutionMemory(pages.peakBytes)
      Some(MapStatuses(env.blockManager.shuffleServerId, sizes, mapId, rowChecksums))
    }

  /** The report on an output that is written, if it is in a format of our own. */
  def encoded: Option[MapEncoded] =
    encoder.encoded.map(MapEncoded(dependency.shuffleId, _, lengths.sum, sizes.sum))

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

  /**
   * Spills the records, encoded as in the output. A failure ends the task, as in Spark: records
   * that are half in a file must not be written again.
   */
  private def spill(held: PartitionedRecords): Unit = {
    context.taskMetrics().incMemoryBytesSpilled(pages.getUsed)
    val spill = Spill.write(spillFiles) { (out, index) =>
      while (held.hasNext) {
        val partition = held.partition
        val records = encode(held, partition, out)
        index.ended(partition, out.bytes, records)
      }
    }
    spills += spill
    context.taskMetrics().incDiskBytesSpilled(spill.bytes)
  }

  private def writeOut(): Array[Long] = {
    val output = outputs.createMapOutputWriter(dependency.shuffleId, mapId, numPartitions)
    var whole = false
    try {
      val checksums = new BlockChecksums(env.conf, numPartitions)
      writePartitions(output, checksums)
      val written = output.commitAllPartitions(checksums.values).getPartitionLengths
      metrics.incBytesWritten(written.sum)
      metrics.incRecordsWritten(records)
      whole = true
      written
    } finally {
      if (!whole) output.abort(new IOException("the map task failed"))
    }
  }

  private def writePartitions(
      output: ShuffleMapOutputWriter,
      checksums: BlockChecksums): Unit = {
    val last = pages.partitioned()
    val readers = ArrayBuffer.empty[Spill.Reader]
    try {
      spills.foreach(readers += _.open())
      var partition = 0
      while (partition < numPartitions) {
        writePartition(output, partition, last, readers, checksums)
        partition += 1
      }
      readers.foreach(_.finish())
    } finally {
      readers.foreach(_.close())
    }
  }

  private def writePartition(
      output: ShuffleMapOutputWriter,
      partition: Int,
      last: PartitionedRecords,
      spilled: collection.Seq[Spill.Reader],
      checksums: BlockChecksums): Unit = {
    val inMemory = last.hasNext && last.partition == partition
    var written = 0L
    if (inMemory || spilled.exists(_.has(partition))) {
      val writer = output.getPartitionWriter(partition)
      val out = new BlockOutput(writer.openStream(), checksums.begin())
      encryption.writing(out) { block =>
        spilled.foreach(spill => if (spill.has(partition)) written += spill.copy(partition, block))
        if (inMemory) written += encode(last, partition, block)
      }
      out.close()
      OutputCheck.bytes(partition, out.bytes, writer.getNumBytesWritten)
      metrics.incWriteTime(out.nanos)
      checksums.end(partition)
    }
    OutputCheck.records(partition, counts.in(partition), written)
  }

  /** Encodes the block of a partition. Returns its records. */
  private def encode(held: PartitionedRecords, partition: Int, out: OutputStream): Long = {
    encoder.open(ShuffleBlockId(dependency.shuffleId, mapId, partition), out)
    var encoded = 0L
    while (held.hasNext && held.partition == partition) encoded += held.next(encoder)
    encoder.close()
    encoded
  }
}
