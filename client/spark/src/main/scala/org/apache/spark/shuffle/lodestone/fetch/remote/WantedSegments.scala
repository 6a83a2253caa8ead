// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch.remote

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.driver.RemotePlan
import org.apache.spark.shuffle.lodestone.driver.remote.{RemoteOutput, RemotePart}
import org.apache.spark.shuffle.lodestone.fetch.{ChunkCut, FetchPlan, MergedChunk, MergedPartition}
import org.apache.spark.shuffle.lodestone.transport.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout}
import org.apache.spark.storage.{BlockId, ShuffleBlockId}

/** Blocks of one partition that a task reads, by map index the attempt that Spark accepted. */
private[remote] final class WantedBlocks {
  private val attempts = mutable.LongMap.empty[Long]

  def add(mapIndex: Int, mapId: Long): Unit = {
    attempts.put(mapIndex.toLong, mapId)
    ()
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

  /** All that the task reads, by partition. */
  val blocks: Map[Int, WantedBlocks] = wantedOf(outputs.flatMap(_._2))

  /**
   * Of each group one service that has all of it. None of those that cannot be asked; where no other is
   * left, the partition for which that is so.
   */
  def sources(
      unreachable: Set[ServiceLocation])
      : Either[Int, Map[ServiceLocation, Map[Int, WantedBlocks]]] = {
    val found = mutable.HashMap.empty[ServiceLocation, mutable.HashMap[Int, WantedBlocks]]
    var orphan: Option[Int] = None
    for {
      (output, list) <- outputs
      (reduceId, ofPartition) <- list.groupBy(block => partitionOf(block._1))
      part <- output.parts
    } {
      val holders = holdersOf(part, reduceId)
      val reachable = holders.filterNot(unreachable.contains)
      if (reachable.nonEmpty) {
        // Readers of several partitions share the copies.
        val source = reachable(reduceId % reachable.size)
        val ofSource = found.getOrElseUpdate(source, mutable.HashMap.empty)
        addTo(ofSource.getOrElseUpdate(reduceId, new WantedBlocks), ofPartition)
      } else if (holders.nonEmpty) {
        orphan = Some(reduceId)
      }
    }
    orphan.toLeft(found.map { case (source, wanted) => source -> wanted.toMap }.toMap)
  }

  /** Services that have all of what a part has for this partition; none if that is nothing. */
  private def holdersOf(part: RemotePart, reduceId: Int): Seq[ServiceLocation] = {
    val services = plan.versions(part.version)
    plan
      .holdersOf(part.version, plan.groupOf(part.version, reduceId))
      .filterNot(part.without.contains)
      .map(services(_))
  }

  private def wantedOf(list: Seq[FetchPlan.Block]): Map[Int, WantedBlocks] =
    list.groupBy(block => partitionOf(block._1)).map { case (reduceId, ofPartition) =>
      val wanted = new WantedBlocks
      addTo(wanted, ofPartition)
      reduceId -> wanted
    }

  private def addTo(wanted: WantedBlocks, list: collection.Seq[FetchPlan.Block]): Unit =
    list.foreach {
      case (ShuffleBlockId(_, mapId, _), _, mapIndex) => wanted.add(mapIndex, mapId)
      case (other, _, _) => throw new IllegalStateException(s"$other is no block of a shuffle")
    }

  private def partitionOf(id: BlockId): Int =
    FetchPlan.partitionOf(id).getOrElse {
      throw new IllegalStateException(s"$id is no block of a shuffle")
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
  private val found = mutable.HashSet.empty[Int]

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
