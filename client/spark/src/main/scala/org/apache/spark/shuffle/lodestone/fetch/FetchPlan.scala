// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import scala.collection.mutable

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.shuffle.lodestone.transport.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout}
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/** A chunk whose every segment is the output of an attempt that Spark accepted. */
private[fetch] final case class AcceptedChunk(index: Int, segments: Array[LaidSegment]) {
  val sizeBytes: Long = segments.foldLeft(0L)(_ + _.length)

  /** Records in it, where each of its map tasks counted them. */
  def records: Option[Long] =
    if (segments.exists(_.records < 0)) None else Some(segments.foldLeft(0L)(_ + _.records))

  def maps: RoaringBitmap = {
    val bitmap = new RoaringBitmap
    segments.foreach(segment => bitmap.add(segment.mapIndex))
    bitmap
  }
}

/** What is read merged of one partition. */
private[fetch] final case class MergedPartition(
    service: ServiceLocation,
    reduceId: Int,
    chunks: IndexedSeq[AcceptedChunk]) {
  def sizeBytes: Long = chunks.iterator.map(_.sizeBytes).sum
}

/**
 * Where each block of a reduce task comes from. The blocks are those of `MapOutputTracker`, no more
 * and no fewer: an accepted chunk stands for exactly the originals of its segments.
 *
 * @param replaced
 *   the originals that the chunks stand for, for the case that a chunk fails
 * @param rejectedBlocks
 *   originals that are read although a chunk has a segment for their map: see [[FetchPlan]]
 */
private[fetch] final case class FetchPlan(
    merged: Seq[MergedPartition],
    originals: FetchPlan.Blocks,
    replaced: FetchPlan.Blocks,
    rejectedBlocks: Int)

private[fetch] object FetchPlan {

  /** As Spark has it: blocks with size and map index, by the address that serves them. */
  type Blocks = Seq[(BlockManagerId, collection.Seq[(BlockId, Long, Int)])]

  def countOf(blocks: Blocks): Int = blocks.iterator.map(_._2.size).sum

  /** Of a block of this shuffle. */
  def partitionOf(id: BlockId): Option[Int] = id match {
    case ShuffleBlockId(_, _, reduceId) => Some(reduceId)
    case _ => None
  }

  /**
   * Accepts a chunk if every segment in it is an original of this task, of the same map attempt, and
   * not in an earlier chunk. One doubtful segment rejects the whole chunk: bytes cannot be left out
   * of it.
   */
  def apply(originals: Blocks, layouts: Seq[(ServiceLocation, PartitionLayout)]): FetchPlan = {
    val wanted = attempts(originals)
    var rejected = 0
    val merged = layouts.flatMap { case (service, layout) =>
      val chunks = layout.chunks.zipWithIndex.flatMap { case (chunk, index) =>
        val keys = chunk.segments.map(segment => key(layout.reduceId, segment.mapIndex))
        val accepted = keys.nonEmpty && keys.distinct.length == keys.length &&
          chunk.segments.indices.forall(i => wanted.get(keys(i)).contains(chunk.segments(i).mapId))
        if (accepted) {
          keys.foreach(wanted.remove)
          Some(AcceptedChunk(index, chunk.segments))
        } else {
          rejected += keys.count(wanted.contains)
          None
        }
      }
      if (chunks.isEmpty) None
      else Some(MergedPartition(service, layout.reduceId, chunks.toIndexedSeq))
    }
    FetchPlan(
      merged,
      select(originals)(wanted.contains, others = true),
      select(originals)(!wanted.contains(_), others = false),
      rejected)
  }

  /** The accepted attempt of each block. Blocks of other kinds are none of ours and stay as they are. */
  private def attempts(originals: Blocks): mutable.LongMap[Long] = {
    val found = mutable.LongMap.empty[Long]
    for ((_, blocks) <- originals; (id, _, mapIndex) <- blocks) id match {
      case ShuffleBlockId(_, mapId, reduceId) => found.put(key(reduceId, mapIndex), mapId)
      case _ =>
    }
    found
  }

  private def select(blocks: Blocks)(wanted: Long => Boolean, others: Boolean): Blocks = {
    val all = blocks.map { case (address, list) =>
      address -> list.filter {
        case (ShuffleBlockId(_, _, reduceId), _, mapIndex) => wanted(key(reduceId, mapIndex))
        case _ => others
      }
    }
    all.filter(_._2.nonEmpty)
  }

  private def key(reduceId: Int, mapIndex: Int): Long =
    (reduceId.toLong << 32) | (mapIndex & 0xffffffffL)
}
