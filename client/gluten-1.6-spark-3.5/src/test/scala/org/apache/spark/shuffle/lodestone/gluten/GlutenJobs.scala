// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.LongAdder

import org.apache.gluten.config.{HashShuffleWriterType, ShuffleWriterType}
import org.apache.gluten.libvelox.NativeCode
import org.apache.gluten.vectorized.NativePartitioning
import org.junit.jupiter.api.{AfterEach, BeforeEach}
import org.junit.jupiter.api.Assertions.assertEquals

import org.apache.spark._
import org.apache.spark.executor.TempShuffleReadMetrics
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.ColumnarShuffleDependency
import org.apache.spark.shuffle.lodestone.PushJobs
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics, SQLShuffleReadMetricsReporter}
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.{IntegerType, StringType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Jobs of Gluten, whose native code is [[FakeVelox]]. */
private[gluten] abstract class GlutenJobs
    extends PushJobs(classOf[LodestoneGlutenShuffleManager], "gluten-1.6") {
  type Columns = ColumnarShuffleDependency[Int, ColumnarBatch, ColumnarBatch]

  protected val native: Seq[(String, String)] =
    Seq("spark.memory.offHeap.enabled" -> "true", "spark.memory.offHeap.size" -> "256m")

  @BeforeEach def load(): Unit = NativeCode.LOADED.set(FakeVelox)

  /** A task that was killed may end a moment after its context. */
  @AfterEach def assertAllClosed(): Unit = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
    while (FakeVelox.open != 0 && System.nanoTime() < end) Thread.`yield`()
    assertEquals(0, FakeVelox.open)
  }

  override protected def withSpark[T](
      mode: String,
      services: String,
      settings: (String, String)*)(job: SparkContext => T): T =
    super.withSpark(mode, services, native ++ settings: _*)(job)

  /** In place of the shuffles of texts: columns of them. */
  override protected def shuffled(
      rows: RDD[(Int, String)],
      serializer: Serializer,
      partitions: Int): RDD[String] = read(columns(rows, partitions))

  protected def columns(
      rows: RDD[(Int, String)],
      partitions: Int = 8,
      writer: ShuffleWriterType = HashShuffleWriterType,
      leavesAt: Option[String] = None): Columns = {
    val metrics = GlutenJobs.Metrics.map { name =>
      name -> SQLMetrics.createMetric(rows.sparkContext, name)
    }
    val batches = rows.mapPartitions(_.grouped(100).map(some => (0, GlutenJobs.batch(some))))
    new ColumnarShuffleDependency[Int, ColumnarBatch, ColumnarBatch](
      batches,
      new HashPartitioner(partitions),
      new VeloxSerializer(writer, leavesAt),
      nativePartitioning = new NativePartitioning("hash", partitions),
      metrics = metrics.toMap,
      shuffleWriterType = writer)
  }

  protected def read(columns: Columns): RDD[String] = {
    val maps = columns.rdd.getNumPartitions
    read(
      columns,
      (0 until columns.partitioner.numPartitions).map { partition =>
        ReadRange(0, maps, partition, partition + 1)
      })
  }

  protected def read(columns: Columns, ranges: Seq[ReadRange]): RDD[String] =
    new ColumnsRead(columns, ranges)
}

private[gluten] object GlutenJobs {

  /** The memory of others stays until the task ends. */
  val closedBatches = new LongAdder
  private val Metrics = Seq(
    "numInputRows",
    "inputBatches",
    "shuffleWallTime",
    "splitTime",
    "sortTime",
    "c2rTime",
    "dataSize",
    "compressTime",
    "peakBytes")

  private def batch(rows: Seq[(Int, String)]): ColumnarBatch = {
    val keys = new OnHeapColumnVector(rows.size, IntegerType)
    val texts = new OnHeapColumnVector(rows.size, StringType)
    for (((key, text), i) <- rows.zipWithIndex) {
      keys.putInt(i, key)
      texts.putByteArray(i, text.getBytes("UTF-8"))
    }
    new ColumnarBatch(Array[ColumnVector](keys, texts), rows.size) {
      override def close(): Unit = {
        closedBatches.increment()
        super.close()
      }
    }
  }
}

private final case class RangePart(index: Int) extends Partition

/** Reads ranges of a columnar shuffle, as Gluten's `ShuffledColumnarBatchRDD` does. */
private final class ColumnsRead(
    @transient private val columns: ColumnarShuffleDependency[Int, ColumnarBatch, ColumnarBatch],
    ranges: Seq[ReadRange])
    extends RDD[String](columns.rdd.sparkContext, Seq(columns)) {
  private val handle = columns.shuffleHandle
  private val metrics =
    SQLShuffleReadMetricsReporter.createShuffleReadMetrics(columns.rdd.sparkContext)

  override protected def getPartitions: Array[Partition] =
    ranges.indices.map(RangePart(_): Partition).toArray

  override def compute(part: Partition, context: TaskContext): Iterator[String] = {
    val range = ranges(part.index)
    val counts =
      new ColumnarCounts(context.taskMetrics().createTempShuffleReadMetrics(), metrics)
    SparkEnv.get.shuffleManager
      .getReader[Int, Seq[String]](
        handle,
        range.startMapIndex,
        range.endMapIndex,
        range.startPartition,
        range.endPartition,
        context,
        counts)
      .read()
      .flatMap { case (_, rows) =>
        counts.addRows(rows.size)
        rows
      }
  }
}

/** Gluten's reader counts batches as records. The rows are added when a batch is there. */
private final class ColumnarCounts(temp: TempShuffleReadMetrics, metrics: Map[String, SQLMetric])
    extends SQLShuffleReadMetricsReporter(temp, metrics) {
  override def incRecordsRead(batches: Long): Unit = ()

  def addRows(rows: Int): Unit = super.incRecordsRead(rows.toLong)
}
