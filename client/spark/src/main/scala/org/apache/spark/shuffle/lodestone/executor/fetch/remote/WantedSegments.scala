// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import org.apache.spark.shuffle.lodestone.executor.fetch._
import org.apache.spark.shuffle.lodestone.plan.{RemoteOutput, ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.OwnHost
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout, SeenSegments}
import org.apache.spark.storage.ShuffleBlockId

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

  /** Whether each replica of a partition has all of it. */
  private def haveAll: Boolean = plan.replicas > 1 && outputs.forall { case (output, _) =>
    output.parts.size == 1 && output.parts.head.without.isEmpty &&
    output.parts.head.version == outputs.head._1.parts.head.version
  }

  /**
   * By partition, the map index that divides it. One so large that it is not read in the order of
   * its maps anyway is read from two replicas at the same time.
   */
  private lazy val middles: Map[Int, Int] =
    if (!haveAll) Map.empty
    else {
      val blocks = outputs.flatMap(_._2).collect {
        case (ShuffleBlockId(_, _, reduceId), bytes, map) => (reduceId, (map, bytes))
      }
      for {
        (reduceId, ofPartition) <- blocks.groupBy(_._1)
        sizes = ofPartition.map(_._2).sorted if sizes.iterator.map(_._2).sum > ReadOrder.MostBytes
      } yield reduceId -> middle(sizes)
    }

  /** Returns the map index below which at most half of the bytes are. */
  private def middle(sizes: Seq[(Int, Long)]): Int = {
    val sums = sizes.iterator.map(_._2).scanLeft(0L)(_ + _).drop(1).toIndexedSeq
    sizes(sums.indexWhere(_ > sums.last / 2))._1
  }

  def middleOf(reduceId: Int): Option[Int] = middles.get(reduceId)

  /**
   * Returns for each group of partitions a service that has all of it, and by partition the numbers
   * of the outputs for which it is asked. Left: a partition for which only unreachable services are
   * left.
   *
   * @param shared
   *   whether two services are returned for a large partition
   */
  def sources(unreachable: Set[ServiceLocation], shared: Boolean = false)
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
        val isShared = shared && middles.contains(reduceId)
        // Readers of several partitions share the replicas.
        for (next <- 0 until (if (isShared) math.min(2, reachable.size) else 1)) {
          val source = reachable((reduceId + next) % reachable.size)
          val ofSource = found.getOrElse(source, Map.empty[Int, Set[Int]])
          val numbers = ofSource.getOrElse(reduceId, Set.empty[Int]) + number
          found = found.updated(source, ofSource.updated(reduceId, numbers))
        }
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
  private val found = IndexedSeq.newBuilder[IndexedSeq[FetchChunk]]
  private val met = new SeenSegments

  /** Takes the segments of half of the maps from each of two replicas, which have all of them. */
  def share(one: SourceLayout, other: SourceLayout, middle: Int): Unit = {
    add(one, _.mapIndex < middle)
    add(other, _.mapIndex >= middle)
  }

  def add(source: SourceLayout, isAsked: LaidSegment => Boolean = _ => true): Unit = {
    val cut = new ChunkCut(source.service, reduceId, chunkBytes)
    var last = 0
    met.nextService()
    cut.addFrom(source.layout) { segment =>
      val output = wanted.listOf(segment)
      // A segment without bytes only says where its block ends.
      val takes = wanted.isFrom(segment) && source.outputs(output) && isAsked(segment) &&
        met.add(segment) && segment.length > 0
      if (takes) {
        if (!mayJoin(last, output)) cut.close()
        last = output
      }
      takes
    }
    found += cut.result()
  }

  /** Map index and map id of each block that is not whole. */
  def missing: Seq[(Int, Long)] =
    wanted.blocks.filterNot { case (mapIndex, _) => met.isWhole(mapIndex) }.toSeq

  /** The services in turn: Spark's iterator requests only some chunks at a time. */
  def result(): IndexedSeq[FetchChunk] = {
    val bySource = found.result()
    val turns = bySource.iterator.map(_.size).foldLeft(0)(math.max)
    for (turn <- 0 until turns; chunks <- bySource if turn < chunks.size) yield chunks(turn)
  }
}
