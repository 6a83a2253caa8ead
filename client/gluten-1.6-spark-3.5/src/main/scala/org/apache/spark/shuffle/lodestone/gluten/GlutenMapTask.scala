// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import org.apache.gluten.backendsapi.BackendsApiManager
import org.apache.gluten.columnarbatch.ColumnarBatches
import org.apache.gluten.config.{GlutenConfig, SortShuffleWriterType}
import org.apache.gluten.memory.memtarget.{MemoryTarget, Spiller}
import org.apache.gluten.runtime.Runtimes
import org.apache.gluten.vectorized.{
  GlutenSplitResult,
  ShuffleWriterJniWrapper,
  UnifflePartitionWriterJniWrapper
}

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.memory.SparkMemoryUtil
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.engine.FramePush
import org.apache.spark.shuffle.writer.PartitionPusher
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SparkResourceUtil

/**
 * Gives the batches of a map task to Gluten's native writer, which pushes its frames as it goes:
 * when it has enough of a partition, when Spark wants memory back, and at the end. All of these are
 * calls of this task. The push needs no memory of Spark, so it may happen inside Spark's lock.
 */
private[gluten] final class GlutenMapTask[K, V](
    dependency: ColumnarShuffleDependency[K, V, _],
    push: FramePush,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter) {
  import GlutenMapTask._

  private val conf = SparkEnv.get.conf
  private val backend = BackendsApiManager.getBackendName
  private val numPartitions = dependency.partitioner.numPartitions
  private val isSort = dependency.shuffleWriterType == SortShuffleWriterType
  private lazy val runtime = Runtimes.contextInstance(backend, "LodestoneShuffleWriter")
  private lazy val writers = ShuffleWriterJniWrapper.create(runtime)
  private var nativeNs = 0L

  /** The handle of the native writer, while there is one. */
  @volatile private var native: Option[Long] = None

  /** Returns when native code has pushed all. Nothing of it is left, also if it throws. */
  def write(records: Iterator[Product2[K, V]]): Unit =
    try {
      records.foreach { record =>
        val batch = record._2.asInstanceOf[ColumnarBatch]
        if (batch.numRows > 0 && batch.numCols > 0) add(batch)
        batch.close()
      }
      // A task without rows pushes nothing.
      native.foreach { writer =>
        val result = inNative(writers.stop(writer))
        checkLengths(result)
        count(result)
      }
    } finally close()

  private def add(batch: ColumnarBatch): Unit = {
    if (native.isEmpty) begin()
    val handle = ColumnarBatches.getNativeHandle(backend, batch)
    val rows = batch.numRows
    inNative(writers.write(native.get, rows, handle, memoryPerTask))
    add("numInputRows", rows.toLong)
    add("inputBatches", 1)
    metrics.incRecordsWritten(rows.toLong)
  }

  private def memoryPerTask: Long =
    SparkMemoryUtil.getCurrentAvailableOffHeapMemory / SparkResourceUtil.getTaskSlots(conf)

  private def begin(): Unit = {
    val partitions = partitionWriter()
    val partitioning = dependency.nativePartitioning
    val start = GlutenShuffleUtils.getStartPartitionId(partitioning, context.partitionId())
    val made =
      if (isSort) {
        writers.createSortShuffleWriter(
          numPartitions,
          partitioning.getShortName,
          start,
          conf.get(config.SHUFFLE_DISK_WRITE_BUFFER_SIZE).toInt,
          conf.get(config.SHUFFLE_SORT_INIT_BUFFER_SIZE).toInt,
          conf.get(config.SHUFFLE_SORT_USE_RADIXSORT),
          partitions)
      } else {
        val gluten = GlutenConfig.get
        writers.createHashShuffleWriter(
          numPartitions,
          partitioning.getShortName,
          start,
          math.min(gluten.shuffleWriterBufferSize, gluten.maxBatchSize),
          gluten.columnarShuffleReallocThreshold,
          partitions)
      }
    native = Some(made)
    runtime.memoryManager().addSpiller(new Pushes)
  }

  private def partitionWriter(): Long = {
    val codec =
      if (conf.get(config.SHUFFLE_COMPRESS)) Some(GlutenShuffleUtils.getCompressionCodec(conf))
      else None
    UnifflePartitionWriterJniWrapper
      .create(runtime)
      .createPartitionWriter(
        numPartitions,
        codec.orNull,
        GlutenConfig.get.columnarShuffleCodecBackend.orNull,
        codec.fold(GlutenShuffleUtils.DEFAULT_COMPRESSION_LEVEL) {
          GlutenShuffleUtils.getCompressionLevel(conf, _)
        },
        codec.fold(0)(GlutenShuffleUtils.getCompressionBufferSize(conf, _)),
        FrameBytes,
        NoSortBuffer,
        new FramePusher(push.push(_, _, 0, _)))
  }

  /** Spark wants memory. Once the native writer is closed, it has none. */
  private final class Pushes extends Spiller {
    override def spill(self: MemoryTarget, phase: Spiller.Phase, size: Long): Long =
      if (phase == Spiller.Phase.SPILL) native.fold(0L)(writers.reclaim(_, size)) else 0L
  }

  /** A frame that native code has made, and that did not come here, would be rows lost. */
  private def checkLengths(result: GlutenSplitResult): Unit = {
    val (made, pushed) = (result.getPartitionLengths, push.partitionLengths())
    if (!made.sameElements(pushed)) {
      throw new IllegalStateException(
        s"Gluten has made ${made.sum} bytes of frames, and has pushed ${pushed.sum}")
    }
  }

  /** Bytes and times of pushes are counted by the push. */
  private def count(result: GlutenSplitResult): Unit = {
    if (isSort) {
      add("sortTime", result.getSortTime)
      add("c2rTime", result.getC2RTime)
    } else {
      val elsewhereNs =
        result.getTotalPushTime + result.getTotalWriteTime + result.getTotalCompressTime
      add("splitTime", math.max(0L, nativeNs - elsewhereNs))
    }
    add("dataSize", result.getRawPartitionLengths.sum)
    add("compressTime", result.getTotalCompressTime)
    add("peakBytes", result.getPeakBytes)
  }

  private def inNative[T](act: => T): T = {
    val beganNs = System.nanoTime()
    try act
    finally {
      val tookNs = System.nanoTime() - beganNs
      nativeNs += tookNs
      add("shuffleWallTime", tookNs)
    }
  }

  private def add(metric: String, value: Long): Unit = dependency.metrics(metric).add(value)

  private def close(): Unit = {
    val last = native
    native = None
    last.foreach(writers.close)
  }
}

private object GlutenMapTask {

  /** What native code has ready for a frame before it knows its size. */
  private val FrameBytes = 64 << 10

  /** Means the default. Only Celeborn's sort has this buffer. */
  private val NoSortBuffer = 0L
}

/** What native code calls, with an array that it writes over as soon as a call returns. */
private[gluten] final class FramePusher(take: (Int, Array[Byte], Int) => Unit)
    extends PartitionPusher(null) {
  override def pushPartitionData(partition: Int, bytes: Array[Byte], length: Int): Int = {
    take(partition, bytes, length)
    length
  }
}
