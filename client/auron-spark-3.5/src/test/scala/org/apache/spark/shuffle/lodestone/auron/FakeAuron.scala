// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import java.util.concurrent.atomic.AtomicReference

import scala.collection.JavaConverters._
import scala.util.control.NonFatal

import org.apache.spark._
import org.apache.spark.rdd.{MapPartitionsRDD, RDD}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.ShuffleWriteProcessor
import org.apache.spark.shuffle.lodestone.engine.FakeNative
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.executor.rows.frames.PushingEngine
import org.apache.spark.sql.auron.NativeRDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.sql.execution.auron.shuffle._
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.CompletionIterator

/** The exchanges of Auron's plans, with native code that is made up. */
private[auron] object FakeAuron {
  type Exchange = AuronShuffleDependency[Int, InternalRow, InternalRow]

  /** A text whose frame native code gives in two parts. */
  val Cut = "cut"

  /** Happens once, after a map attempt has its status, which Spark does not have yet. */
  val afterCommit = new AtomicReference[() => Unit]()

  def exchange(rows: RDD[(Int, String)], partitions: Int): Exchange = {
    val partitioner = new HashPartitioner(partitions)
    new Exchange(
      new FakePlan(rows, partitioner).map((0, _)),
      partitioner,
      new UnsafeRowSerializer(1),
      None,
      None,
      false,
      new FakeProcessor(partitions),
      new StructType())
  }

  /** Reads each partition by a task of its own. */
  def read(of: Exchange): RDD[String] = {
    val partitions = 0 until of.partitioner.numPartitions
    read(of, partitions.map(i => ReadRange(0, Int.MaxValue, i, i + 1)))
  }

  def read(of: Exchange, ranges: Seq[ReadRange]): RDD[String] =
    new FakeRead(of.rdd.sparkContext, of, ranges.toArray)
}

/** The plan of a map task. */
private final class FakePlan(rows: RDD[(Int, String)], of: Partitioner)
    extends NativeRDD(rows.sparkContext, Seq(new OneToOneDependency(rows))) {
  private val Threads = 3

  override protected def getPartitions: Array[Partition] = firstParent[(Int, String)].partitions

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    throw new IllegalStateException("native code computes")

  override def executeNativePlan(
      writer: String,
      partition: Partition,
      context: TaskContext): Iterator[InternalRow] = {
    var count = 0L
    val frames = firstParent[(Int, String)].iterator(partition, context).map { case (key, text) =>
      count += 1
      val target = if (text == PushingEngine.Poison) -1 else of.getPartition(key)
      new FakeNative.Frame(target, JniFrames.of(text))
    }
    try {
      val pushes = new JniPush(JniFrames.resource(writer))
      FakeNative.pushAll(pushes, frames.asJava, Threads, context.taskAttemptId())
      pushes.flush()
      context.taskMetrics().shuffleWriteMetrics.incRecordsWritten(count)
    } catch {
      // Native code says nothing when its task has ended (`native-engine/auron/src/rt.rs`).
      case NonFatal(_) if context.isInterrupted() || context.isCompleted() =>
    }
    Iterator.empty
  }
}

/** What `NativeShuffleExchangeExec` does in a map task. */
private final class FakeProcessor(partitions: Int) extends ShuffleWriteProcessor {
  override def write(
      rdd: RDD[_],
      dep: ShuffleDependency[_, _, _],
      mapId: Long,
      context: TaskContext,
      partition: Partition): MapStatus = {
    val metrics = createMetricsReporter(context)
    val writer = SparkEnv.get.shuffleManager
      .getWriter[Any, Any](dep.shuffleHandle, mapId, context, metrics)
    writer match {
      case native: AuronRssShuffleWriterBase[_, _] =>
        val plan = rdd.asInstanceOf[MapPartitionsRDD[_, _]].prev.asInstanceOf[NativeRDD]
        native.nativeRssShuffleWrite(plan, dep, mapId.toInt, context, partition, partitions)
    }
    val status = writer.stop(true).get
    Option(FakeAuron.afterCommit.getAndSet(null)).foreach(_())
    status
  }
}

private final case class FakePartition(index: Int, range: ReadRange) extends Partition

/** What `NativeShuffleExchangeBase` and `ShimsImpl` do in a reduce task. */
private final class FakeRead(spark: SparkContext, of: FakeAuron.Exchange, ranges: Array[ReadRange])
    extends RDD[String](spark, Seq(of)) {
  override protected def getPartitions: Array[Partition] =
    ranges.zipWithIndex.map { case (range, i) => FakePartition(i, range) }

  override def compute(split: Partition, context: TaskContext): Iterator[String] = {
    val range = split.asInstanceOf[FakePartition].range
    val task = context.taskMetrics()
    val reader = SparkEnv.get.shuffleManager
      .getReader[Any, Any](
        dependencies.head.asInstanceOf[FakeAuron.Exchange].shuffleHandle,
        range.startMapIndex,
        range.endMapIndex,
        range.startPartition,
        range.endPartition,
        context,
        task.createTempShuffleReadMetrics())
      .asInstanceOf[AuronBlockStoreShuffleReaderBase[_, _]]
    val blocks = CompletionIterator[Object, Iterator[Object]](
      reader.readIpc(),
      task.mergeShuffleReadMetrics())
    val texts = FakeNative.onOwnThread(() => JniFrames.decode(blocks))
    task.createTempShuffleReadMetrics().incRecordsRead(texts.size.toLong)
    task.mergeShuffleReadMetrics()
    texts.iterator
  }
}
