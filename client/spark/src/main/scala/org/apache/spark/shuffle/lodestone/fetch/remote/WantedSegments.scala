// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch.remote

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.driver.RemotePlan
import org.apache.spark.shuffle.lodestone.driver.remote.RemoteOutput
import org.apache.spark.shuffle.lodestone.fetch.{ChunkCut, FetchPlan, MergedChunk, MergedPartition}
import org.apache.spark.shuffle.lodestone.transport.{OwnHost, ServiceLocation}
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout}
import org.apache.spark.storage.ShuffleBlockId

/** Blocks of one partition that a task reads, by map index the attempt that Spark accepted. */
private[remote] final class WantedBlocks {
  private val attempts = mutable.LongMap.empty[Long]

  def add(mapIndex: Int, mapId: Long): Unit = {
    attempts.put(mapIndex.toLong, mapId)
    ()
  }

  /** All of both. */
  def and(other: WantedBlocks): WantedBlocks = {
    val both = new WantedBlocks
    both.attempts ++= attempts
    both.attempts ++= other.attempts
    both
  }

  def size: Int = attempts.size

  def isFrom(segment: LaidSegment): Boolean =
    attempts.getOrElse(segment.mapIndex.toLong, WantedBlocks.NoAttempt) == segment.mapId

  def mapIndexes: Iterator[Int] = attempts.keysIterator.map(_.toInt)
}

private[remote] object WantedBlocks {

  /** Spark counts attempts from 0. */
  private val NoAttempt = -1L
}

/** Which service is asked for which blocks of which partitions. */
private[remote] final class WantedSegments(
    outputs: Seq[(RemoteOutput, FetchPlan.BlockList)],
    plan: RemotePlan) {

  private val ofOutputs = outputs.map { case (output, list) => output -> wantedOf(list) }

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
      val holders = part.holders(plan, plan.groupOf(part.version, reduceId))
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

  private def wantedOf(list: FetchPlan.BlockList): Map[Int, WantedBlocks] = {
    val wanted = mutable.HashMap.empty[Int, WantedBlocks]
    list.foreach {
      case (ShuffleBlockId(_, mapId, reduceId), _, mapIndex) =>
        wanted.getOrElseUpdate(reduceId, new WantedBlocks).add(mapIndex, mapId)
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
  private val found = mutable.BitSet.empty

  /** Segments that were taken: a service may have what another one has as well. */
  private val taken = mutable.HashSet.empty[Long]

  /** @param asked the blocks for which this service was asked */
  def add(
      service: ServiceLocation,
      layout: PartitionLayout,
      asked: WantedBlocks,
      isOnlyOne: Boolean): Unit = {
    val cut = new ChunkCut(service, chunkBytes)
    layout.runs.foreach { run =>
      var i = 0
      while (i < run.segments.length) {
        val segment = run.segments(i)
        if (asked.isFrom(segment) && (isOnlyOne || taken.add(nameOf(segment)))) {
          found += segment.mapIndex
          cut.add(run.first + i, segment)
        }
        i += 1
      }
    }
    chunks ++= cut.result()
  }

  def missing: Int = wanted.mapIndexes.count(!found.contains(_))

  def result(): MergedPartition = MergedPartition(reduceId, chunks.result())

  private def nameOf(segment: LaidSegment): Long =
    (segment.mapIndex.toLong << 32) | segment.sequence
}
