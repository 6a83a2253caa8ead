// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch.remote

import org.slf4j.LoggerFactory

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.{LodestoneHandle, Reason}
import org.apache.spark.shuffle.lodestone.driver._
import org.apache.spark.shuffle.lodestone.driver.remote._
import org.apache.spark.shuffle.lodestone.fetch._
import org.apache.spark.shuffle.lodestone.transport._

/** The reading side of remote shuffles on one executor. */
private[lodestone] final class RemoteReads(
    client: ServiceClient,
    driver: RemoteDriverLink,
    plans: RemotePlans,
    patience: Patience) {
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
    private val epoch = outputs.iterator.map(_._1.epoch).max
    private val generation = ShuffleGeneration(handle.shuffleId, epoch)

    /** Of outputs of several epochs only the earlier ones are lost: those of the driver's are good. */
    private val loss = {
      val earliest = outputs.iterator.map(_._1.epoch).min
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
      val failures = new MergedFailure(handle.shuffleId, loss)
      val read = FetchPlan(merged, local, Nil, 0)
      val check = new OriginalsCheck(BlockRecords.Unknown, local, None)
      new MergedShuffleReader(handle.inner, read, fetcher, loss, failures, check, context, metrics)
    }

    private def mergedOf(plan: RemotePlan): Seq[MergedPartition] = {
      val wanted = new WantedSegments(outputs, plan)
      val layouts = new SourceLayouts(client, generation, plan, range.maps, patience, context)
      layouts(wanted) match {
        case Right(found) => ReadOrder(pick(wanted, found), isConcatenable, mayWait)
        case Left((reduceId, lost)) => loss.fail(reduceId, lost)
      }
    }

    /** Outputs of an earlier epoch are lost: the statuses that name them are just being replaced. */
    private def planOf(): RemotePlan = {
      val version =
        outputs.iterator.flatMap(_._1.parts).map(_.version).foldLeft(NoVersion)(math.max)
      val alive = () => context.killTaskIfInterrupted()
      val answer = DriverQuestion(s"where $generation is", alive) {
        plans.toRead(handle.shuffleId, epoch, version)
      }
      val plan = answer match {
        case plan: RemotePlan => plan
        case other =>
          log.warn(s"The driver does not know where $generation is: $other")
          loss.fail(range.startPartition, LostAt(Nil, Reason.UnknownShuffle))
      }
      val isOld = outputs.exists(_._1.epoch != plan.epoch)
      if (isOld || plan.newest < version) {
        loss.fail(range.startPartition, LostAt(Nil, Reason.OutputLost))
      }
      plan
    }

    /** A block that is not wholly shown is lost: what Spark says is there must be there. */
    private def pick(wanted: WantedSegments, layouts: Seq[SourceLayout]): Seq[MergedChunk] =
      wanted.blocks.toSeq.sortBy(_._1).flatMap { case (reduceId, blocks) =>
        val pick = new PartitionPick(reduceId, blocks, chunkBytes)
        val sources = layouts.filter(_.wanted.contains(reduceId))
        for (source <- sources; layout <- source.of(reduceId)) {
          pick.add(source.service, layout, source.wanted(reduceId))
        }
        if (pick.missing > 0) {
          log.error(
            s"${pick.missing} blocks of partition $reduceId of $generation are not all there")
          val missing = pick.firstMissing.map { case (mapIndex, mapId) =>
            MissingBlock(mapIndex, mapId, reduceId)
          }
          loss.fail(reduceId, LostAt(sources.map(_.service), Reason.OutputLost, missing))
        }
        pick.result()
      }
  }
}

private[remote] object RemoteReads {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[RemoteReads])

  private val NoVersion = -1
}
