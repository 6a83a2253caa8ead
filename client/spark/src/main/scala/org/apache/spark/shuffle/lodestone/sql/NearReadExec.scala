// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.sql

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.shuffle.lodestone.plan.TaskHosts
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{ShuffledRowRDD, SparkPlan, UnaryExecNode}

/**
 * Hands on the rows of a shuffle read, and names the hosts where its tasks should run. It changes
 * nothing else, so two plans are the same with and without it.
 */
private[sql] final case class NearReadExec(child: SparkPlan, @transient hosts: TaskHosts)
    extends UnaryExecNode {
  override def nodeName: String = "LodestoneNearRead"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def stringArgs: Iterator[Any] = Iterator.empty
  override protected def doCanonicalize(): SparkPlan = child.canonicalized

  override protected def doExecute(): RDD[InternalRow] = child.execute() match {
    case read: ShuffledRowRDD if read.getNumPartitions == hosts.size => new NearReadRDD(read, hosts)
    case other => other
  }

  override protected def withNewChildInternal(newChild: SparkPlan): NearReadExec =
    copy(child = newChild)
}

/** Spark's scheduler asks the first RDD above a shuffle that has an answer where tasks may run. */
private[sql] final class NearReadRDD(read: RDD[InternalRow], @transient hosts: TaskHosts)
    extends RDD[InternalRow](read) {

  @transient override val partitioner = read.partitioner

  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  override protected def getPreferredLocations(split: Partition): Seq[String] = hosts(split.index)

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    firstParent[InternalRow].iterator(split, context)
}
