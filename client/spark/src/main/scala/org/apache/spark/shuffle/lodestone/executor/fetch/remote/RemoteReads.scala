// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import org.apache.spark.SparkEnv
import org.apache.spark.internal.config
import org.apache.spark.shuffle.ShuffleReader
import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.engine.EngineReader
import org.apache.spark.shuffle.lodestone.executor.fetch._
import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, DriverQuestion, PlanCache}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameHeads
import org.apache.spark.shuffle.lodestone.plan.{
  BlockFormat,
  LodestoneHandle,
  LostAt,
  Reason,
  RemoteOutput
}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleEligibility, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}

/** Reads remote shuffles on one executor. */
private[lodestone] final class RemoteReads(
    client: ServiceClient,
    driver: DriverLink,
    plans: PlanCache,
    retryPolicy: RetryPolicy) extends Logged {
  private val NoVersion = -1

  /** Returns None if executors have all outputs that the task reads, in Spark's format. */
  def reader[K, C](
      handle: LodestoneHandle[K, _, C],
      task: ReduceTask): Option[ShuffleReader[K, C]] = {
    val (outputs, local) = blocksOf(handle, task)
    if (outputs.isEmpty && handle.format == BlockFormat.SparkStream) None
    else Some(streams(handle, task, outputs, local).reader(handle, task))
  }

  /** Returns what the task reads of a shuffle whose frames its engine decodes by itself. */
  def blocks(
      handle: LodestoneHandle[_, _, _],
      task: ReduceTask,
      heads: Option[FrameHeads]): EngineReader = {
    val (outputs, local) = blocksOf(handle, task)
    new EngineBlocks(streams(handle, task, outputs, local), task, heads)
  }

  private def blocksOf(handle: LodestoneHandle[_, _, _], task: ReduceTask): (
      Seq[(RemoteOutput, ReadSources.BlockList)],
      ReadSources.BlocksByAddress) = {
    val blocks = task.range.blocksOf(handle.shuffleId)
    val (remote, local) = blocks.partition { case (address, _) => RemoteOutput.isRemote(address) }
    (remote.map { case (address, list) => RemoteOutput.of(address) -> list }, local)
  }

  private def streams(
      handle: LodestoneHandle[_, _, _],
      task: ReduceTask,
      outputs: Seq[(RemoteOutput, ReadSources.BlockList)],
      local: ReadSources.BlocksByAddress): BlockStreams = {
    val check = new OriginalsCheck(BlockRecords.Unknown, local, None)
    if (outputs.nonEmpty) new ReduceRead(handle, task, outputs, local, check).streams()
    else OriginalsReader(handle, local, check, mayBatch = true, task)
  }

  /** The read of one task. */
  private final class ReduceRead(
      handle: LodestoneHandle[_, _, _],
      task: ReduceTask,
      outputs: Seq[(RemoteOutput, ReadSources.BlockList)],
      local: ReadSources.BlocksByAddress,
      originals: OriginalsCheck) {
    private val generation =
      ShuffleGeneration(handle.shuffleId, outputs.iterator.map(_._1.generation).max)

    /** If outputs are of several generations, only those of the earliest are lost for certain. */
    private val loss = {
      val earliest = outputs.iterator.map(_._1.generation).min
      new OutputLoss(handle.shuffleId, earliest, driver, SparkEnv.get.executorId, task.context)
    }
    private val tally = new ReadTally

    /** Segments that cannot be read as one stream come one by one. */
    private val isConcatenable = handle.format.isInstanceOf[BlockFormat.EngineFrames] ||
      ShuffleEligibility.streamObstacle(SparkEnv.get.conf, handle.dependency).isEmpty
    private val chunkBytes = if (isConcatenable) ChunkCut.ChunkBytes else ChunkCut.OneSegment

    /** The setting's default, which is no limit. */
    private val mayWait =
      SparkEnv.get.conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS) == Int.MaxValue

    def streams(): BlockStreams = {
      val (plan, merged) = task.waiting {
        val plan = planOf()
        val maps = task.range.of(handle.numMaps)
        val reader = new LayoutReader(client, generation, handle.format, maps)
        val wanted = new WantedSegments(outputs, plan)
        val sources =
          new RemoteSources(client, reader, plan, wanted, chunkBytes, retryPolicy, task.context)
        sources.chunks() match {
          case Left((reduceId, lost)) => loss.fail(reduceId, lost)
          case Right(chunks) => (plan, ReadOrder(chunks, isConcatenable, mayWait))
        }
      }
      tally.originals(ReadSources.countOf(local))
      task.reportTo(driver, generation, tally)
      val rescue = new RemoteRescue(client, generation, plan, retryPolicy)
      val fetcher = new ChunkFetcher(client, generation, merged, loss, Some(rescue), tally)
      val check = new ChunkCheck(merged, originals, loss)
      val sources = ReadSources(merged, local)
      ServiceShuffleReader(handle, sources, fetcher, check, task)
    }

    /** Outputs of an earlier generation are lost: Spark is replacing their statuses. */
    private def planOf(): ShufflePlan = {
      val version =
        outputs.iterator.flatMap(_._1.parts).map(_.version).foldLeft(NoVersion)(math.max)
      val alive = () => task.context.killTaskIfInterrupted()
      val answer = DriverQuestion(s"where $generation is", alive) {
        plans.toRead(generation, version)
      }
      val plan = answer match {
        case plan: ShufflePlan => plan
        case other =>
          log.warn(s"The driver does not know where $generation is: $other")
          loss.fail(task.range.startPartition, LostAt(Nil, Reason.UnknownShuffle))
      }
      val isOld = outputs.exists(_._1.generation != plan.generation)
      if (isOld || plan.newest < version) {
        loss.fail(task.range.startPartition, LostAt(Nil, Reason.OutputLost))
      }
      plan
    }
  }
}
