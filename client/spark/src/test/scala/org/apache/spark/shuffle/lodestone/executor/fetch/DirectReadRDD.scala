// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.reflect.ClassTag

import org.apache.spark.{Dependency, Partition, ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.shuffle.lodestone.plan.BlockFormat

/**
 * Reads a shuffle as Delta's optimised write does: not through the shuffle manager, but by a fetch
 * iterator of its own, from where Spark says that map outputs are.
 *
 * @param record
 *   makes a row of a key and a value
 */
private[lodestone] final class DirectReadRDD[T: ClassTag](
    shuffle: ShuffleDependency[_, _, _],
    record: (Any, Any) => T)
    extends RDD[T](shuffle.rdd.context, Nil) {

  override def getDependencies: Seq[Dependency[_]] = Seq(shuffle)

  override def getPartitions: Array[Partition] =
    Array.tabulate(shuffle.partitioner.numPartitions)(at => DirectReadPartition(at))

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    val env = SparkEnv.get
    val read = dependencies.head.asInstanceOf[ShuffleDependency[_, _, _]]
    val range = ReadRange(0, Int.MaxValue, split.index, split.index + 1)
    val task = ReduceTask(range, context, context.taskMetrics().createTempShuffleReadMetrics())
    val serializer = read.serializer.newInstance()
    val streams = RecordReader.fetch(
      env.blockManager.blockStoreClient,
      env.mapOutputTracker,
      range.blocksOf(read.shuffleId),
      BlockFormat.SparkStream,
      inBatches = false,
      hasOriginals = true,
      (_, block) => block,
      task)
    streams.flatMap { case (_, stream) =>
      serializer.deserializeStream(stream).asKeyValueIterator.map(record.tupled)
    }
  }
}

private final case class DirectReadPartition(index: Int) extends Partition
