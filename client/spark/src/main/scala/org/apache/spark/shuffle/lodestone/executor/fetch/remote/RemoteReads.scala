// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import scala.annotation.tailrec

import org.slf4j.LoggerFactory

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.fetch.{BlockRecords, ChunkCut, ChunkFetcher}
import org.apache.spark.shuffle.lodestone.executor.fetch.{FetchPlan, FetchWait, MergedChunk}
import org.apache.spark.shuffle.lodestone.executor.fetch.{MergedFailure, MergedPartition}
import org.apache.spark.shuffle.lodestone.executor.fetch.{MergedShuffleReader, MergedSource}
import org.apache.spark.shuffle.lodestone.executor.fetch.{OriginalsCheck, ReadOrder, ReadRange}
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadTally
import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, DriverQuestion, RemotePlans}
import org.apache.spark.shuffle.lodestone.plan.{LodestoneHandle, MissingBlock, Reason, RemoteOutput}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleEligibility}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan, TaskRead}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}

/** The reading side of remote shuffles on one executor. */
private[lodestone] final class RemoteReads(
    client: ServiceClient,
    driver: DriverLink,
    plans: RemotePlans,
    patience: RetryPolicy) {
  import RemoteReads._

  /** None: all outputs that the task reads are where they were written. */
  def reader[K, C](
      handle: LodestoneHandle[K, _, C],
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): Option[ShuffleReader[K, C]] = {
    val blocks = range.blocksOf(handle.shuffleId)
    val (remote, local) = blocks.partition { case (address, _) => RemoteOutput.isRemote(address) }
    if (remote.isEmpty) {
      None
    } else {
      val outputs = remote.map { case (address, list) => RemoteOutput.of(address) -> list }
      Some(new ReduceRead(handle, range, outputs, local, context, metrics).reader())
    }
  }

  /** What one task reads. */
  private final class ReduceRead[K, C](
      handle: LodestoneHandle[K, _, C],
      range: ReadRange,
      outputs: Seq[(RemoteOutput, FetchPlan.BlockList)],
      local: FetchPlan.Blocks,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter) {
    private val epoch = outputs.iterator.map(_._1.generation).max
    private val generation = ShuffleGeneration(handle.shuffleId, epoch)

    /** Of outputs of several epochs only the earlier ones are lost: those of the driver's are good. */
    private val loss = {
      val earliest = outputs.iterator.map(_._1.generation).min
      new OutputLoss(handle.shuffleId, earliest, driver, SparkEnv.get.executorId, context)
    }
    private val tally = new ReadTally

    /** Segments that cannot be read as one stream come one by one. */
    private val isConcatenable =
      ShuffleEligibility.concatenationObstacle(SparkEnv.get.conf, handle.dependency).isEmpty
    private val chunkBytes = if (isConcatenable) ChunkCut.ChunkBytes else ChunkCut.OneSegment

    /** As users of Spark's have it that did not ask for a limit. */
    private val mayWait =
      SparkEnv.get.conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS) == Int.MaxValue

    def reader(): ShuffleReader[K, C] = {
      val (plan, merged) = FetchWait(metrics) {
        val plan = planOf()
        (plan, mergedOf(plan))
      }
      tally.originals(FetchPlan.countOf(local))
      context.addTaskCompletionListener[Unit] { _ =>
        driver.report(TaskRead(generation, tally.counts))
      }
      val source = MergedSource(client, generation)
      val rescue = new RemoteRescue(client, generation, plan, patience)
      val fetcher = ChunkFetcher(source, merged, loss, rescue, tally)
      val failures = new MergedFailure(loss)
      val read = FetchPlan(merged, local, Nil, 0)
      val check = new OriginalsCheck(BlockRecords.Unknown, local, None)
      new MergedShuffleReader(handle.inner, read, fetcher, failures, check, context, metrics)
    }

    private def mergedOf(plan: ShufflePlan): Seq[MergedPartition] = {
      val wanted = new WantedSegments(outputs, plan)
      val layouts = new SourceLayouts(client, generation, plan, range.maps, patience, context)
      ReadOrder(chunksOf(wanted, layouts, None), isConcatenable, mayWait)
    }

    /**
     * What Spark says is there must be there, wholly.
     *
     * @param lost
     *   services that lack a block, as they said before: a copy of it is looked for elsewhere
     */
    @tailrec
    private def chunksOf(
        wanted: WantedSegments,
        layouts: SourceLayouts,
        lost: Option[(Int, LostAt)]): Seq[MergedChunk] = {
      val lacking = lost.fold(NoService)(_._2.services)
      layouts(wanted, without = lacking) match {
        case Left(unknown) =>
          val (reduceId, why) = lost.getOrElse(unknown)
          loss.fail(reduceId, why)
        case Right(found) =>
          val picks = wanted.blocks.toSeq.sortBy(_._1).map { case (reduceId, blocks) =>
            pick(reduceId, blocks, found.filter(_.wanted.contains(reduceId)))
          }
          picks.flatMap(_.left.toOption).headOption match {
            case None => picks.flatMap(_.toOption).flatten
            case Some((reduceId, more)) =>
              val all = more.copy(services = lacking ++ more.services)
              // Where nobody was asked there is nobody else to ask.
              if (more.services.isEmpty) loss.fail(reduceId, all)
              else chunksOf(wanted, layouts, Some(reduceId -> all))
          }
      }
    }

    /** Outputs of an earlier epoch are lost: the statuses that name them are just being replaced. */
    private def planOf(): ShufflePlan = {
      val version =
        outputs.iterator.flatMap(_._1.parts).map(_.version).foldLeft(NoVersion)(math.max)
      val alive = () => context.killTaskIfInterrupted()
      val answer = DriverQuestion(s"where $generation is", alive) {
        plans.toRead(handle.shuffleId, epoch, version)
      }
      val plan = answer match {
        case plan: ShufflePlan => plan
        case other =>
          log.warn(s"The driver does not know where $generation is: $other")
          loss.fail(range.startPartition, LostAt(Nil, Reason.UnknownShuffle))
      }
      val isOld = outputs.exists(_._1.generation != plan.generation)
      if (isOld || plan.newest < version) {
        loss.fail(range.startPartition, LostAt(Nil, Reason.OutputLost))
      }
      plan
    }

    /** Left: the services lack a block. */
    private def pick(
        reduceId: Int,
        blocks: WantedBlocks,
        sources: Seq[SourceLayout]): Either[(Int, LostAt), Seq[MergedChunk]] = {
      val pick = new PartitionPick(reduceId, blocks, chunkBytes)
      for (source <- sources; layout <- source.of(reduceId)) {
        pick.add(source.service, layout, source.wanted(reduceId))
      }
      val missing = pick.missing
      missing.headOption match {
        case None => Right(pick.result())
        case Some((mapIndex, mapId)) =>
          val services = sources.map(_.service)
          log.error(
            s"${missing.size} blocks of partition $reduceId of $generation are not all at " +
              services.map(_.hostPort).mkString(", "))
          val first = MissingBlock(mapIndex, mapId, reduceId)
          Left(reduceId -> LostAt(services, Reason.OutputLost, Some(first)))
      }
    }
  }
}

private[remote] object RemoteReads {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[RemoteReads])

  private val NoVersion = -1
  private val NoService: Seq[ServiceLocation] = Nil
}
