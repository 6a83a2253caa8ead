// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import scala.collection.mutable

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

  /**
   * By partition, the map index that divides it. A large one is read from two replicas at the same
   * time. No layout is known yet, so this goes by the sizes that Spark sees, which are larger than
   * the lengths of encoded rows. A partition that is small by its length is read in the order of
   * its maps in any case.
   */
  private lazy val middles: Map[Int, Int] =
    if (plan.replicas == 1) Map.empty
    else {
      val bytes = mutable.LongMap.empty[Long]
      for ((_, list) <- outputs) list.foreach {
        case (ShuffleBlockId(_, _, reduceId), size, _) =>
          bytes(reduceId.toLong) = bytes.getOrElse(reduceId.toLong, 0L) + size
        case _ =>
      }
      val large = bytes.iterator.filter(_._2 > ReadOrder.MostBytes)
      large.map(_._1.toInt).filter(isWholeAtTwo).map(id => id -> middle(id)).toMap
    }

  /** Whether the same services have all wanted segments of this partition, each of them all. */
  private def isWholeAtTwo(reduceId: Int): Boolean = {
    val parts = outputs.indices.filter(partitions(_).contains(reduceId)).map(outputs(_)._1.parts)
    val services = parts.map {
      case Seq(part) => part.servicesOf(plan, plan.groupOf(part.version, reduceId)).toSet
      case _ => Set.empty[ServiceLocation]
    }
    services.distinct.size == 1 && services.head.size > 1
  }

  /** Returns the map index below which at most half of the bytes are, by the sizes for Spark. */
  private def middle(reduceId: Int): Int = {
    val sizes = outputs.flatMap(_._2.iterator.collect {
      case (ShuffleBlockId(_, _, `reduceId`), size, map) => (map, size)
    }).sorted
    val sums = sizes.iterator.map(_._2).scanLeft(0L)(_ + _).drop(1).toIndexedSeq
    sizes(sums.indexWhere(_ > sums.last / 2))._1
  }

  def middleOf(reduceId: Int): Option[Int] = middles.get(reduceId)

  /**
   * Returns for each group of partitions a service that has all of it, and by partition the numbers
   * of the outputs for which it is asked. Left: a partition that no reachable service has.
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

  /** Takes segments of the maps below the middle from one replica, of the others from the other. */
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
