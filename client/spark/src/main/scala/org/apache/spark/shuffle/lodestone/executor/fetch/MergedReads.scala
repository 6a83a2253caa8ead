// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.ShuffleReader
import org.apache.spark.shuffle.lodestone.engine.EngineReader
import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, PlanCache}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameHeads
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, Distrust, NoPlan, OutputsSuspected}
import org.apache.spark.shuffle.lodestone.plan.{
  OwnHandle,
  Reason,
  ShuffleGeneration,
  ShufflePlan,
  SqlRows
}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.storage.ShuffleBlockId

/**
 * Reads merged shuffles on one executor. For each reduce task it finds out which blocks are merged.
 * Without a reader of its own the task is Spark's.
 */
private[lodestone] final class MergedReads(
    client: ServiceClient,
    driver: DriverLink,
    plans: PlanCache,
    written: WrittenRecords) {
  import MergedReads._

  def reader[K, C](
      handle: OwnHandle[K, _, C],
      task: ReduceTask): Option[ShuffleReader[K, C]] =
    new MergedRead(handle, task).streams().map(_.reader(handle, task))

  /** Returns what the task reads of a shuffle whose frames its engine decodes by itself. */
  def blocks(
      handle: OwnHandle[_, _, _],
      task: ReduceTask,
      heads: Option[FrameHeads]): EngineReader = {
    // Blocks of engines never have Spark's own reader.
    val streams = new MergedRead(handle, task).streams().get
    new EngineBlocks(streams, task, heads)
  }

  /** The read of one task. */
  private final class MergedRead(handle: OwnHandle[_, _, _], task: ReduceTask) {
    private val generation =
      ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)
    private val originals = task.range.blocksOf(handle.shuffleId)
    private val blocks = ReadSources.countOf(originals)
    private val tally = new ReadTally

    /** Returns None if the reader of Spark is as good. */
    def streams(): Option[BlockStreams] = {
      val sources = task.waiting(sourcesOf())
      tally.originals(ReadSources.countOf(sources.originals))
      task.reportTo(driver, generation, tally)
      val counted =
        if (sources.suspects.isEmpty) written.of(handle, task) else written.required(handle, task)
      val isCounted = !handle.dependency.mapSideCombine
      val counting = if (isCounted || sources.suspects.isDefined) Some(tally) else None
      val suspects = sources.suspects.filter(_ => isCounted)
      val records = counted.orElse(sources.counted)
      val check = new OriginalsCheck(records, originals, counting, suspects)
      if (sources.merged.isEmpty || sources.originals.nonEmpty) counted.begin()
      if (sources.merged.nonEmpty) {
        val fallback = new Originals(sources, generation, driver, tally, task.context)
        val fetcher = new ChunkFetcher(client, generation, sources.merged, fallback, None, tally)
        val all = new ChunkCheck(sources.merged, check, fallback)
        Some(ServiceShuffleReader(handle, sources, fetcher, all, task))
      } else if (counting.isDefined || isReadFaster) {
        val mayBatch = sources.counted.size == 0
        Some(OriginalsReader(handle, originals, check, mayBatch, task))
      } else {
        None
      }
    }

    /** Without Spark's streams, or the blocks are not for them. */
    private def isReadFaster: Boolean =
      handle.format != BlockFormat.SparkStream || SqlRows.areOf(handle.dependency.serializer)

    private def sourcesOf(): ReadSources =
      if (originals.isEmpty) ReadSources(Nil, originals)
      else if (task.range.isLocalRead) allOriginal(Reason.LocalMapRead)
      else
        planOf() match {
          case Left(reason) => allOriginal(reason)
          case Right(plan) =>
            val answers = layoutsOf(plan)
            val layouts = for (one <- answers; layout <- one.layouts.toSeq.flatten)
              yield one.service -> layout
            plan.distrusted match {
              case Some(Distrust(reason, taskId)) =>
                val counted = LaidRecords(originals, layouts.map(_._2))
                allOriginal(reason).copy(counted = counted, suspects = Some(suspectsOf(taskId)))
              case None =>
                val missing = (for (one <- answers; reason <- one.layouts.left.toSeq)
                  yield one.reduceIds.map(_ -> reason)).flatten.toMap
                counting(ReadSources(originals, layouts), missing)
            }
        }

    private def suspectsOf(taskId: Long): Suspects = Suspects(
      taskId,
      { () =>
        // Without an answer only the map that the failed read names is run again.
        val reported = driver.ask(OutputsSuspected(generation, taskId))
        driver.awaitAnswer(reported, s"the report that $generation may be wrong")
        ()
      })

    private def allOriginal(reason: Reason): ReadSources = {
      tally.fallback(reason, blocks)
      ReadSources(Nil, originals)
    }

    /** @param missing by partition, why its layout is not known */
    private def counting(found: ReadSources, missing: Map[Int, Reason]): ReadSources =
      if (found.merged.nonEmpty && found.originals.nonEmpty && isCheaperLocal(found)) {
        allOriginal(Reason.LocalMapRead).copy(counted = found.counted)
      } else {
        tally.fallback(Reason.AttemptNotAccepted, found.rejectedBlocks)
        if (missing.nonEmpty) {
          for ((_, list) <- found.originals; (ShuffleBlockId(_, _, reduceId), _, _) <- list)
            missing.get(reduceId).foreach(tally.fallback(_, 1))
        }
        found
      }

    /**
     * True if all blocks are this executor's own, and cheap to read. It then reads them in the
     * order of plain Spark. Merged data with holes, which differ from run to run, could not keep
     * that order.
     */
    private def isCheaperLocal(found: ReadSources): Boolean = {
      val own = SparkEnv.get.blockManager.blockManagerId
      originals.forall(_._1 == own) &&
      blocks <= MaxLocalOriginals &&
      found.mostBytes <= ReadOrder.MostBytes
    }

    private def planOf(): Either[Reason, ShufflePlan] = {
      val asked = plans.toRead(generation, task.stage)
      driver.awaitAnswer(asked, s"the question where $generation is") match {
        case Some(plan: ShufflePlan) => Right(plan)
        case Some(NoPlan(reason, _)) => Left(reason)
        case None => Left(Reason.DriverUnreachable)
      }
    }

    private def layoutsOf(plan: ShufflePlan): Seq[LayoutAnswer] = {
      val partitions = ReadSources.partitionsOf(originals.map(_._2))
      val perPartition = blocks / math.max(1, partitions.size)
      val sources = partitions.groupBy(id => plan.services(plan.groupOf(plan.newest, id)))
      val maps = task.range.of(handle.numMaps)
      val reader = new LayoutReader(client, generation, handle.format, maps)
      reader.askOnce(sources)(_ => perPartition)
    }
  }
}

private[fetch] object MergedReads {

  /** Reading so many blocks one by one takes some tens of milliseconds. */
  private val MaxLocalOriginals = 2048
}
