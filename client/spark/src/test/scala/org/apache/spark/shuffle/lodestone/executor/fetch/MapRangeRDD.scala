// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.{Dependency, Partition, ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.rdd.RDD

/** A shuffle as adaptive execution reads it: each task reads some maps of some partitions. */
private[lodestone] final class MapRangeRDD(
    shuffle: ShuffleDependency[Int, Int, Int],
    ranges: Seq[ReadRange])
    extends RDD[(Int, Int)](shuffle.rdd.context, Nil) {

  override def getDependencies: Seq[Dependency[_]] = Seq(shuffle)

  override def getPartitions: Array[Partition] =
    ranges.zipWithIndex.map { case (range, at) => RangePartition(at, range): Partition }.toArray

  override def compute(split: Partition, context: TaskContext): Iterator[(Int, Int)] = {
    val range = split.asInstanceOf[RangePartition].range
    SparkEnv.get.shuffleManager
      .getReader[Int, Int](
        dependencies.head.asInstanceOf[ShuffleDependency[Int, Int, Int]].shuffleHandle,
        range.startMapIndex,
        range.endMapIndex,
        range.startPartition,
        range.endPartition,
        context,
        context.taskMetrics().createTempShuffleReadMetrics())
      .read()
      .map(pair => (pair._1, pair._2))
  }
}

private final case class RangePartition(index: Int, range: ReadRange) extends Partition
