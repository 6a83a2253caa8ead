// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.{Dependency, Partition, ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.shuffle.lodestone.plan.BlockFormat

/**
 * Reads a shuffle as Delta's optimised write does: not through the shuffle manager, but by a fetch
 * iterator of its own, from where Spark says that map outputs are.
 */
private[lodestone] final class DirectReadRDD(shuffle: ShuffleDependency[Int, Int, Int])
    extends RDD[(Int, Int)](shuffle.rdd.context, Nil) {

  override def getDependencies: Seq[Dependency[_]] = Seq(shuffle)

  override def getPartitions: Array[Partition] =
    Array.tabulate(shuffle.partitioner.numPartitions)(at => DirectReadPartition(at))

  override def compute(split: Partition, context: TaskContext): Iterator[(Int, Int)] = {
    val env = SparkEnv.get
    val read = dependencies.head.asInstanceOf[ShuffleDependency[Int, Int, Int]]
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
      task)
    streams.flatMap { case (_, stream) =>
      serializer.deserializeStream(stream).asKeyValueIterator.map { case (key, value) =>
        (key.asInstanceOf[Int], value.asInstanceOf[Int])
      }
    }
  }
}

private final case class DirectReadPartition(index: Int) extends Partition
