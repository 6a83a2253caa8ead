// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.comet.execution.shuffle.lodestone

import org.apache.comet.CometExecIterator
import org.apache.comet.serde.OperatorOuterClass._
import org.apache.comet.shuffle.ShufflePartitionPusher
import org.apache.spark.TaskContext
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter
import org.apache.spark.sql.comet._
import org.apache.spark.sql.comet.execution.shuffle._
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * Runs the native plan of a map task of Comet, whose frames go to a callback and to no file. The
 * native code is that which pushes to Celeborn: Comet's own writer in Scala takes a pusher of
 * Celeborn and no other, and is of use here for the plan alone.
 *
 * The package is one of Comet's, which shows these parts of it to no others.
 */
private[spark] final class CometMapTask(
    dependency: CometShuffleDependency[_, _, _],
    mapId: Long,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter) {
  import CometMapTask._

  private val spec = dependency.nativeShuffleSpec.get
  private val execution = spec.execContext
  private val rowsWritten = new SQLMetric("outputRows")

  /** Time in calls of the pusher, which counts by itself what it waits for services. */
  private val pushTime = new SQLMetric("pushTime")

  /** Returns when native code has pushed all that it makes of these rows. */
  def run(rows: Iterator[_], pusher: ShufflePartitionPusher): Unit = rows match {
    case input: CometNativeShuffleInputIterator =>
      spec.sqlConf.withConf {
        val native = iterator(input, pusher)
        CometNativeShuffleWriter.drainAndClose(native, () => native.close())
      }
      metrics.incRecordsWritten(rowsWritten.value)
    case other =>
      throw new IllegalStateException(s"native code of Comet does not read ${other.getClass}")
  }

  /** Returns true if native code has a row that fits into no frame. */
  def isTooLarge(thrown: Throwable): Boolean = CometNativeShuffleWriter.isSizeLimitFailure(thrown)

  /** Begins the plan. Subqueries are known by the number of the iterator, until the task ends. */
  private def iterator(
      input: CometNativeShuffleInputIterator,
      pusher: ShufflePartitionPusher): CometExecIterator = {
    val native = new CometExecIterator(
      id = CometExec.newIterId,
      inputObjects = input.inputObjects,
      numOutputCols = dependency.outputAttributes.length,
      protobufQueryPlan = CometExec.serializeNativePlan(plan(input)),
      nativeMetrics = metricNode(),
      numParts = dependency.numParts,
      partitionIndex = input.partitionIndex,
      broadcastedHadoopConfForEncryption = execution.broadcastedHadoopConfForEncryption,
      encryptedFilePaths = execution.encryptedFilePaths,
      shuffleBlockIterators = input.shuffleBlockIterators,
      shufflePartitionPusher = Some(pusher))
    execution.subqueries.foreach(CometScalarSubquery.setSubquery(native.id, _))
    context.addTaskCompletionListener[Unit] { _ =>
      execution.subqueries.foreach(CometScalarSubquery.removeSubquery(native.id, _))
    }
    native
  }

  /** Returns the plan with what only this task reads, such as its part of a table. */
  private def plan(input: CometNativeShuffleInputIterator): Operator = {
    val whole = pushing(localPlan)
    val common = execution.commonByKey
    if (common.isEmpty) whole
    else
      PlanDataInjector.injectPlanDataForShuffle(
        dependency.shuffleId,
        whole,
        common,
        input.planDataByKey)
  }

  /** Returns the plan as Comet makes it for a local file. */
  private def localPlan: Operator =
    new CometNativeShuffleWriter(
      spec,
      dependency.outputPartitioning.get,
      dependency.outputAttributes,
      dependency.shuffleWriteMetrics,
      dependency.numParts,
      dependency.shuffleId,
      mapId,
      context,
      metrics,
      dependency.rangePartitionBounds).buildUnifiedPlan(NoFile)

  private def metricNode(): CometMetricNode = {
    val all = dependency.shuffleWriteMetrics
    val own = Map(
      "output_rows" -> rowsWritten,
      "data_size" -> all("dataSize"),
      "write_time" -> pushTime)
    val node =
      CometMetricNode(
        own ++ all.filter { case (name, _) => Detailed(name) },
        Seq(spec.childMetricNode))
    if (execution.hasScanInput) node.reportScanInputMetrics(context)
    node
  }
}

private object CometMapTask {
  private val NoFile = ""

  /** The metrics of a shuffle that native code knows by the names that they have in Spark. */
  private val Detailed = Set(
    "elapsed_compute",
    "encode_time",
    "repart_time",
    "interleave_time",
    "input_batches",
    "spill_count",
    "spilled_bytes",
    "memory_spilled_bytes")

  /** Returns a plan that gives its frames to the callback in place of a file. */
  private def pushing(local: Operator): Operator = {
    val frames = PartitionWriter.newBuilder().setRss(RssPartitionWriter.getDefaultInstance)
    val writer =
      local.getShuffleWriter.toBuilder.clearOutputDataFile().setPartitionWriter(frames)
    local.toBuilder.setShuffleWriter(writer).build()
  }
}
