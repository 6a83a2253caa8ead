// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.TimeUnit

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.shuffle.ShuffleReadMetricsReporter
import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, StageAttempt}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameCodec
import org.apache.spark.shuffle.lodestone.plan.{
  BlockFormat,
  GetCounts,
  ShuffleGeneration,
  TaskRead
}
import org.apache.spark.shuffle.lodestone.wire.MapRange

/**
 * The part of a shuffle that one task reads: all maps of some partitions, a range of maps of one
 * partition (a skew split), or a range of maps of all partitions (a local read).
 */
private[lodestone] final case class ReadRange(
    startMapIndex: Int,
    endMapIndex: Int,
    startPartition: Int,
    endPartition: Int) {
  private val maps = MapRange(startMapIndex, endMapIndex)

  /** Returns those of a shuffle with so many maps: Spark's range of all maps has no real end. */
  private[fetch] def of(numMaps: Int): MapRange =
    MapRange(startMapIndex, math.min(endMapIndex, numMaps))

  private[fetch] def blocksOf(shuffleId: Int): ReadSources.BlocksByAddress =
    SparkEnv.get.mapOutputTracker
      .getMapSizesByExecutorId(
        shuffleId,
        startMapIndex,
        endMapIndex,
        startPartition,
        endPartition)
      .toSeq

  private[fetch] def countsOf(shuffleId: Int): GetCounts =
    GetCounts(shuffleId, startMapIndex, endMapIndex, startPartition, endPartition)

  /** Merged data is ordered by partition, map outputs by map: these are sequential already. */
  def isLocalRead: Boolean = maps != MapRange.All && endPartition - startPartition > 1
}

/**
 * A task that reads a shuffle.
 *
 * @param codec
 *   that of the engine whose shuffle manager runs here
 */
private[lodestone] final case class ReduceTask(
    range: ReadRange,
    context: TaskContext,
    metrics: ShuffleReadMetricsReporter,
    codec: Option[FrameCodec] = None) {

  /** Returns the codec of the engine, which is the only one that may decode its frames. */
  private[fetch] def codecOf(format: BlockFormat.EngineFrames): FrameCodec =
    codec.filter(_.format == format).getOrElse {
      throw new IllegalStateException(
        s"this executor's shuffle manager does not read ${format.name}: driver and executors " +
          "need the same shuffle manager and the same release of the engine")
    }

  private[fetch] def stage: StageAttempt =
    StageAttempt(context.stageId(), context.stageAttemptNumber())

  /** Waits for the driver or for layouts, before any fetch. Spark shows it as fetch wait. */
  private[fetch] def waiting[T](wait: => T): T = {
    val beganNs = System.nanoTime()
    try wait
    finally metrics.incFetchWaitTime(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beganNs))
  }

  /** Reports what the task has read, when it ends. */
  private[fetch] def reportTo(
      driver: DriverLink,
      generation: ShuffleGeneration,
      tally: ReadTally,
      always: Boolean = true): Unit = {
    context.addTaskCompletionListener[Unit] { _ =>
      val counts = tally.counts
      if (always || counts.fallbacks.nonEmpty) driver.report(TaskRead(generation, counts))
    }
    ()
  }
}
