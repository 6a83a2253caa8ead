// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkCut, FetchChunk, ReadSources}
import org.apache.spark.shuffle.lodestone.executor.fetch.WantedBlocks
import org.apache.spark.shuffle.lodestone.plan.{RemoteOutput, ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.OwnHost
import org.apache.spark.shuffle.lodestone.wire.{SeenSegments, PartitionLayout}

/** Decides which service is asked for the blocks of which partitions and outputs. */
private[remote] final class WantedSegments(
    outputs: Seq[(RemoteOutput, ReadSources.BlockList)],
    plan: ShufflePlan) {

  /** All that the task reads, by partition. */
  val blocks: collection.Map[Int, WantedBlocks] = WantedBlocks(outputs.map(_._2))

  if (blocks.valuesIterator.map(_.size).sum != outputs.map(_._2.size).sum) {
    throw new IllegalStateException("a map output has something that is no block of a shuffle")
  }

  private val partitions = outputs.map { case (_, list) => ReadSources.partitionsOf(Seq(list)) }

  /**
   * Returns for each group of partitions one service that has all of it, and by partition the
   * numbers of the outputs for which it is asked. Left: a partition for which only unreachable
   * services are left.
   */
  def sources(unreachable: Set[ServiceLocation])
      : Either[Int, Map[ServiceLocation, Map[Int, Set[Int]]]] = {
    var found = Map.empty[ServiceLocation, Map[Int, Set[Int]]]
    var orphan: Option[Int] = None
    for {
      ((output, _), number) <- outputs.zipWithIndex
      part <- output.parts
      reduceId <- partitions(number)
    } {
      val replicas = part.servicesOf(plan, plan.groupOf(part.version, reduceId))
      val reachable = nearest(replicas.filterNot(unreachable.contains))
      if (reachable.nonEmpty) {
        // Readers of several partitions share the replicas.
        val source = reachable(reduceId % reachable.size)
        val ofSource = found.getOrElse(source, Map.empty[Int, Set[Int]])
        val numbers = ofSource.getOrElse(reduceId, Set.empty[Int]) + number
        found = found.updated(source, ofSource.updated(reduceId, numbers))
      } else if (replicas.nonEmpty) {
        orphan = Some(reduceId)
      }
    }
    orphan.toLeft(found)
  }

  /** A replica on the reader's own host crosses no network. */
  private def nearest(services: Seq[ServiceLocation]): Seq[ServiceLocation] = {
    val own = services.filter(OwnHost.has)
    if (own.isEmpty) services else own
  }

  /**
   * True if segments of these two outputs, one after another, may be in one chunk: another service
   * must have all of a chunk. Segments of an output that several versions of the plan pushed have
   * different replicas.
   */
  def mayJoin(before: Int, output: Int): Boolean =
    plan.replicas == 1 || (before == output && outputs(output)._1.parts.size == 1)
}

/** The segments that one service has of one partition, and the numbers of the wanted outputs. */
private[remote] final case class SourceLayout(
    service: ServiceLocation,
    layout: PartitionLayout,
    outputs: Set[Int])

/**
 * Makes chunks of one partition from the layouts of its services.
 *
 * @param mayJoin
 *   whether segments of these two outputs may be in one chunk
 */
private[remote] final class PartitionPick(
    reduceId: Int,
    wanted: WantedBlocks,
    chunkBytes: Long,
    mayJoin: (Int, Int) => Boolean = (_, _) => true) {
  private val chunks = IndexedSeq.newBuilder[FetchChunk]
  private val met = new SeenSegments

  def add(source: SourceLayout): Unit = {
    val cut = new ChunkCut(source.service, reduceId, chunkBytes)
    var last = 0
    met.nextService()
    cut.addFrom(source.layout) { segment =>
      val output = wanted.listOf(segment)
      // A segment without bytes only says where its block ends.
      val takes = wanted.isFrom(segment) && source.outputs(output) &&
        met.add(segment) && segment.length > 0
      if (takes) {
        if (!mayJoin(last, output)) cut.close()
        last = output
      }
      takes
    }
    chunks ++= cut.result()
  }

  /** Map index and map id of each block that is not whole. */
  def missing: Seq[(Int, Long)] =
    wanted.blocks.filterNot { case (mapIndex, _) => met.isWhole(mapIndex) }.toSeq

  def result(): IndexedSeq[FetchChunk] = chunks.result()
}
