// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.TimeoutException

import scala.concurrent.Await
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{GetCounts, NoPlan, OwnHandle, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan, TaskRead}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
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
  val maps: MapRange = MapRange(startMapIndex, endMapIndex)

  /** As Spark knows them, by where they are. */
  private[fetch] def blocksOf(shuffleId: Int): FetchPlan.Blocks =
    SparkEnv.get.mapOutputTracker
      .getMapSizesByExecutorId(
        shuffleId,
        startMapIndex,
        endMapIndex,
        startPartition,
        endPartition)
      .toSeq

  /** What the driver is asked of it. */
  private[fetch] def countsOf(shuffleId: Int): GetCounts =
    GetCounts(shuffleId, startMapIndex, endMapIndex, startPartition, endPartition)

  /** Merged data is ordered by partition, map outputs by map: these are sequential already. */
  def isLocalRead: Boolean = maps != MapRange.All && endPartition - startPartition > 1
}

/**
 * The reading side of one executor. For each reduce task it finds out what is merged, and gives a
 * reader for it, or none if the task had better be left to Spark.
 */
private[lodestone] final class MergedReads(
    conf: LodestoneConf,
    client: ServiceClient,
    driver: DriverLink,
    written: WrittenRecords) {

  import MergedReads._

  private val results = new MergeResults(driver)
  private val layouts = new LayoutRequest(client)

  def reader[K, C](
      handle: OwnHandle[K, _, C],
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): Option[ShuffleReader[K, C]] = {
    val generation = ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)
    val originals = range.blocksOf(handle.shuffleId)
    val tally = new ReadTally
    val plan = FetchWait(metrics)(planOf(generation, range, context, originals, tally))
    tally.originals(FetchPlan.countOf(plan.originals))
    context.addTaskCompletionListener[Unit](_ => driver.report(TaskRead(generation, tally.counts)))
    val told = written.of(handle, range, context, metrics)
    val isCounted = !handle.dependency.mapSideCombine || plan.isDistrusted
    val counting = if (isCounted) Some(tally) else None
    val check = new OriginalsCheck(told.orElse(plan.counted), originals, counting)
    val inner = handle.inner
    if (plan.merged.isEmpty || plan.originals.nonEmpty) told.begin()
    if (plan.merged.nonEmpty) {
      val source = MergedSource(client, generation)
      val substitutes = new Originals(plan.merged, plan.replaced, tally)
      val failures = new MergedFailure(new DistrustedMerge(generation, driver))
      val fetcher = ChunkFetcher(source, plan.merged, substitutes, ChunkRescue.Never, tally)
      Some(new MergedShuffleReader(inner, plan, fetcher, failures, check, context, metrics))
    } else if (isCounted || OriginalsReader.gains(inner)) {
      val mayBatch = plan.counted.size == 0
      Some(new OriginalsReader(inner, range, originals, check, mayBatch, context, metrics))
    } else {
      None
    }
  }

  /** Nothing of the shuffle is remembered. */
  def removed(shuffleId: Int): Unit = results.forget(shuffleId)

  private def planOf(
      generation: ShuffleGeneration,
      range: ReadRange,
      context: TaskContext,
      originals: FetchPlan.Blocks,
      tally: ReadTally): FetchPlan = {
    def allOriginal(reason: Reason): FetchPlan = {
      tally.fallback(reason, FetchPlan.countOf(originals))
      FetchPlan(Nil, originals, Nil, 0)
    }
    if (originals.isEmpty) {
      FetchPlan(Nil, originals, Nil, 0)
    } else if (range.isLocalRead) {
      allOriginal(Reason.LocalMapRead)
    } else {
      resultOf(generation, context) match {
        case Left(reason) => allOriginal(reason)
        case Right(merged) =>
          val partitions = FetchPlan.partitionsOf(originals)
          val blocks = FetchPlan.countOf(originals)
          val found = layouts.ask(generation, merged, range.maps, partitions, blocks)
          merged.distrusted match {
            case Some(code) =>
              val counted = LaidRecords(originals, found.known.map(_._2))
              allOriginal(Reason.of(code).getOrElse(Reason.RecordsMismatch))
                .copy(counted = counted, isDistrusted = true)
            case None => merge(originals, found, tally)
          }
      }
    }
  }

  private def merge(
      originals: FetchPlan.Blocks,
      found: Layouts,
      tally: ReadTally): FetchPlan = {
    val plan = FetchPlan(originals, found.known)
    if (plan.merged.nonEmpty && plan.originals.nonEmpty && isBetterInPlace(originals)) {
      tally.fallback(Reason.LocalMapRead, FetchPlan.countOf(originals))
      FetchPlan(Nil, originals, Nil, 0, plan.counted)
    } else {
      tally.fallback(Reason.AttemptNotAccepted, plan.rejectedBlocks)
      count(plan.originals, found.missing, tally)
      plan
    }
  }

  /**
   * What this executor has itself, and is read in the order of plain Spark where it is: with holes in
   * the merged data, which are not the same in every run, that order could not be kept. A few small
   * blocks cost next to nothing.
   */
  private def isBetterInPlace(originals: FetchPlan.Blocks): Boolean = {
    val own = SparkEnv.get.blockManager.blockManagerId
    originals.forall(_._1 == own) &&
    FetchPlan.countOf(originals) <= MostInPlace &&
    originals.iterator.flatMap(_._2.iterator).map(_._2).sum <= ReadOrder.MostBytes
  }

  /** Originals of partitions whose layout is not known, by the reason why. */
  private def count(
      originals: FetchPlan.Blocks,
      missing: Map[Int, Reason],
      tally: ReadTally): Unit = if (missing.nonEmpty) {
    val partitions =
      originals.iterator.flatMap(_._2.iterator).flatMap(b => FetchPlan.partitionOf(b._1))
    partitions.flatMap(missing.get).foreach(tally.fallback(_, 1))
  }

  private def resultOf(
      generation: ShuffleGeneration,
      context: TaskContext): Either[Reason, ShufflePlan] =
    try {
      // The first one looks the driver's endpoint up, which may fail at once.
      val asked = results.of(generation, context.stageId(), context.stageAttemptNumber())
      Await.result(asked, driver.answerTimeout) match {
        case plan: ShufflePlan => Right(plan)
        case none: NoPlan => Left(none.reason.getOrElse(Reason.DriverUnreachable))
      }
    } catch {
      case _: TimeoutException => Left(Reason.DriverUnreachable)
      // Spark's RPC reports a driver that cannot be reached by exceptions of many kinds; the
      // originals can be read all the same. An interrupt is not among them: the task was killed.
      case NonFatal(failure) =>
        log.warn(s"The driver did not tell what came of $generation", failure)
        Left(Reason.DriverUnreachable)
    }
}

private[fetch] object MergedReads {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[MergedReads])

  /** Blocks that are read one by one rather than out of order: some tens of milliseconds. */
  private val MostInPlace = 2048
}
