// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.sql

import org.apache.spark.shuffle.lodestone.plan.{ReadSize, TaskHosts}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{
  CoalesceExec,
  CoalescedPartitionSpec,
  PartialReducerPartitionSpec,
  ShufflePartitionSpec,
  SparkPlan
}
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec

/**
 * Puts a [[NearReadExec]] over each read of a shuffle whose tasks have hosts. It sees only reads of
 * map stages that adaptive execution has finished. The reads of other engines, and of exchanges
 * that are not Spark's own, stay as they are.
 *
 * @param hostsFor
 *   the hosts of the tasks that read a shuffle
 */
private[sql] final class NearReads(hostsFor: (Int, Seq[ReadSize]) => Option[TaskHosts])
    extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan =
    try placed(plan)
    catch {
      // Classes of Spark, in a release whose plans look different.
      case unknown: LinkageError =>
        log.warn("Reduce tasks run anywhere: this release of Spark is not known", unknown)
        plan
    }

  private def placed(plan: SparkPlan): SparkPlan = plan match {
    // Where partitions have hosts, Spark groups them by host, and not in their order: the order of
    // sorted rows would be lost.
    case CoalesceExec(numPartitions, _) if numPartitions > 1 => plan
    case read @ AQEShuffleReadExec(stage: ShuffleQueryStageExec, specs) =>
      withHosts(read, stage)(_ => specs)
    case stage: ShuffleQueryStageExec =>
      withHosts(stage, stage)(partitions => (0 until partitions).map(one))
    case other => other.mapChildren(placed)
  }

  private def one(partition: Int) = CoalescedPartitionSpec(partition, partition + 1)

  private def withHosts(read: SparkPlan, stage: ShuffleQueryStageExec)(
      specs: Int => Seq[ShufflePartitionSpec]): SparkPlan = {
    val placed = for {
      exchange <- sparksOwn(stage)
      sizes <- stage.mapStats.map(_.bytesByPartitionId)
      reads <- readsOf(specs(sizes.length), sizes)
      hosts <- hostsFor(exchange.shuffleDependency.shuffleId, reads)
    } yield {
      val node = NearReadExec(read, hosts)
      node.copyTagsFrom(read)
      node
    }
    placed.getOrElse(read)
  }

  private def sparksOwn(stage: ShuffleQueryStageExec): Option[ShuffleExchangeExec] =
    Some(stage.shuffle).filter(_ => stage.isMaterialized).collect {
      case exchange: ShuffleExchangeExec if exchange.getClass == classOf[ShuffleExchangeExec] =>
        exchange
    }

  /** None if tasks read whole map outputs, from executors. */
  private def readsOf(
      specs: Seq[ShufflePartitionSpec],
      sizes: Array[Long]): Option[Seq[ReadSize]] = {
    val reads = specs.collect {
      case CoalescedPartitionSpec(start, end, _) =>
        ReadSize(start, end, (start until end).map(sizes(_)))
      case PartialReducerPartitionSpec(partition, _, _, bytes) =>
        ReadSize(partition, partition + 1, Seq(bytes))
    }
    Some(reads).filter(_.size == specs.size)
  }
}
