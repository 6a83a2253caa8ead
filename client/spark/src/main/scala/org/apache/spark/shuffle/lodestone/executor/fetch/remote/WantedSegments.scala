// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkCut, FetchPlan, MergedChunk}
import org.apache.spark.shuffle.lodestone.plan.{RemoteOutput, ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.OwnHost
import org.apache.spark.shuffle.lodestone.wire.{SeenSegments, LaidSegment, PartitionLayout}
import org.apache.spark.storage.ShuffleBlockId

/** Blocks of one partition that a task reads, by map index the attempt that Spark accepted. */
private[remote] final class WantedBlocks {
  private val attempts = mutable.LongMap.empty[Long]

  /** By map index, which of the outputs it is of; only where it is not the first one. */
  private val outputs = mutable.LongMap.empty[Int]

  def add(mapIndex: Int, mapId: Long, output: Int): Unit = {
    attempts.put(mapIndex.toLong, mapId)
    if (output != 0) outputs.put(mapIndex.toLong, output)
  }

  /** All of both. */
  def and(other: WantedBlocks): WantedBlocks = {
    val both = new WantedBlocks
    both.attempts ++= attempts
    both.attempts ++= other.attempts
    both.outputs ++= outputs
    both.outputs ++= other.outputs
    both
  }

  /** Segments of one output are at the same services; those of [[WantedBlocks.Mixed]] one by one. */
  def outputOf(segment: LaidSegment): Int =
    if (outputs.isEmpty) 0 else outputs.getOrElse(segment.mapIndex.toLong, 0)

  def size: Int = attempts.size

  def isFrom(segment: LaidSegment): Boolean =
    attempts.getOrElse(segment.mapIndex.toLong, WantedBlocks.NoAttempt) == segment.mapId

  def mapIndexes: Iterator[Int] = attempts.keysIterator.map(_.toInt)

  def attemptOf(mapIndex: Int): Long = attempts(mapIndex.toLong)
}

private[remote] object WantedBlocks {

  /** Spark counts attempts from 0. */
  private val NoAttempt = -1L

  /** What was pushed by several versions of the plan: its segments have not all the same copies. */
  val Mixed: Int = -1
}

/** Which service is asked for which blocks of which partitions. */
private[remote] final class WantedSegments(
    outputs: Seq[(RemoteOutput, FetchPlan.BlockList)],
    plan: ShufflePlan) {

  private val ofOutputs = outputs.zipWithIndex.map { case ((output, list), i) =>
    output -> wantedOf(list, kindOf(output, i))
  }

  /** All that the task reads, by partition. */
  val blocks: Map[Int, WantedBlocks] =
    ofOutputs.map(_._2).reduce((some, more) => more.foldLeft(some)(adding))

  /**
   * Of each group one service that has all of it. None of those that cannot be asked; where no other is
   * left, the partition for which that is so.
   */
  def sources(
      unreachable: Set[ServiceLocation])
      : Either[Int, Map[ServiceLocation, Map[Int, WantedBlocks]]] = {
    var found = Map.empty[ServiceLocation, Map[Int, WantedBlocks]]
    var orphan: Option[Int] = None
    for {
      (output, byPartition) <- ofOutputs
      part <- output.parts
      (reduceId, blocks) <- byPartition
    } {
      val holders = part.servicesOf(plan, plan.groupOf(part.version, reduceId))
      val reachable = nearest(holders.filterNot(unreachable.contains))
      if (reachable.nonEmpty) {
        // Readers of several partitions share the copies.
        val source = reachable(reduceId % reachable.size)
        val ofSource = found.getOrElse(source, Map.empty[Int, WantedBlocks])
        found += source -> adding(ofSource, reduceId -> blocks)
      } else if (holders.nonEmpty) {
        orphan = Some(reduceId)
      }
    }
    orphan.toLeft(found)
  }

  /** A copy on the reader's own host crosses no network. */
  private def nearest(services: Seq[ServiceLocation]): Seq[ServiceLocation] = {
    val own = services.filter(OwnHost.has)
    if (own.isEmpty) services else own
  }

  private def adding(
      some: Map[Int, WantedBlocks],
      more: (Int, WantedBlocks)): Map[Int, WantedBlocks] = {
    val (reduceId, blocks) = more
    some.updated(reduceId, some.get(reduceId).fold(blocks)(_.and(blocks)))
  }

  /** Where there are no copies it does not matter which other service has them. */
  private def kindOf(output: RemoteOutput, index: Int): Int =
    if (plan.replicas == 1) 0
    else if (output.parts.size > 1) WantedBlocks.Mixed
    else index

  private def wantedOf(list: FetchPlan.BlockList, output: Int): Map[Int, WantedBlocks] = {
    val wanted = mutable.HashMap.empty[Int, WantedBlocks]
    list.foreach {
      case (ShuffleBlockId(_, mapId, reduceId), _, mapIndex) =>
        wanted.getOrElseUpdate(reduceId, new WantedBlocks).add(mapIndex, mapId, output)
      case (other, _, _) => throw new IllegalStateException(s"$other is no block of a shuffle")
    }
    wanted.toMap
  }
}

/**
 * Makes chunks of one partition from what its services say that they have.
 *
 * @param chunkBytes
 *   at which a chunk is large enough
 */
private[remote] final class PartitionPick(
    reduceId: Int,
    wanted: WantedBlocks,
    chunkBytes: Long) {
  private val chunks = IndexedSeq.newBuilder[MergedChunk]
  private val met = new SeenSegments

  /**
   * What is in one chunk is at the same services, so that another one can give all of it.
   *
   * @param asked
   *   the blocks for which this service was asked
   */
  def add(service: ServiceLocation, layout: PartitionLayout, asked: WantedBlocks): Unit = {
    val cut = new ChunkCut(service, reduceId, chunkBytes)
    var last = 0
    met.nextService()
    layout.runs.foreach { run =>
      var i = 0
      while (i < run.segments.length) {
        val segment = run.segments(i)
        // One without bytes only says where its block ends.
        if (asked.isFrom(segment) && met.add(segment) && segment.length > 0) {
          val output = asked.outputOf(segment)
          if (output != last || output == WantedBlocks.Mixed) cut.close()
          last = output
          cut.add(run.first + i, segment)
        }
        i += 1
      }
    }
    chunks ++= cut.result()
  }

  /** Map index and map id of each block of which not all segments are there. */
  def missing: Seq[(Int, Long)] =
    wanted.mapIndexes.filterNot(met.isWhole).map(i => i -> wanted.attemptOf(i)).toSeq

  def result(): IndexedSeq[MergedChunk] = chunks.result()
}
