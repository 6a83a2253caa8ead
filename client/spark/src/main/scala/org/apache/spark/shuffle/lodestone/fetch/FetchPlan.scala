// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import scala.collection.mutable

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.shuffle.lodestone.transport.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout}
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/**
 * A chunk as it is laid out, and the places in it of segments that are left out: of attempts that
 * Spark did not accept, or of blocks that this task does not read or has elsewhere. All else below
 * is of the segments that are read.
 */
private[fetch] final case class AcceptedChunk(
    index: Int,
    laid: Array[LaidSegment],
    leftOut: Set[Int] = Set.empty) {
  val segments: Array[LaidSegment] =
    if (leftOut.isEmpty) laid
    else laid.indices.filterNot(leftOut.contains).map(laid(_)).toArray
  val sizeBytes: Long = segments.foldLeft(0L)(_ + _.length)
  val laidBytes: Long = laid.foldLeft(0L)(_ + _.length)

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
 * and no fewer: an accepted chunk stands for exactly the originals of the segments read from it.
 *
 * @param replaced
 *   the originals that the chunks stand for, for the case that a chunk fails
 * @param rejectedBlocks
 *   originals that are read although a service has merged a block of their map: see [[FetchPlan]]
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

  /** Where less of a chunk than one part in so many is wanted, its originals are less to move. */
  private val MinWantedPart = 4

  /** Spark counts attempts from 0. */
  private val NoAttempt = Long.MinValue

  /**
   * A segment is read if it is an original of this task, of the same map attempt, and not in an
   * earlier chunk. The others in its chunk are left out: segments are whole frames, so that what
   * remains is a stream all the same.
   */
  def apply(originals: Blocks, layouts: Seq[(ServiceLocation, PartitionLayout)]): FetchPlan = {
    val wanted = attempts(originals)
    val merged = layouts.flatMap { case (service, layout) =>
      val chunks = layout.chunks.zipWithIndex.flatMap { case (chunk, index) =>
        accepted(layout.reduceId, index, chunk.segments, wanted)
      }
      if (chunks.isEmpty) None
      else Some(MergedPartition(service, layout.reduceId, chunks.toIndexedSeq))
    }
    FetchPlan(
      merged,
      select(originals)(wanted.contains, others = true),
      select(originals)(!wanted.contains(_), others = false),
      if (wanted.isEmpty) 0 else offered(layouts, wanted.contains))
  }

  /** How many of those blocks are in the layouts. */
  private def offered(
      layouts: Seq[(ServiceLocation, PartitionLayout)],
      block: Long => Boolean): Int = {
    val found = mutable.HashSet.empty[Long]
    for ((_, layout) <- layouts; chunk <- layout.chunks; segment <- chunk.segments) {
      val offer = key(layout.reduceId, segment.mapIndex)
      if (block(offer)) found += offer
    }
    found.size
  }

  /** Takes what is read from the chunk out of `wanted`. This runs per segment: no sets, no boxes. */
  private def accepted(
      reduceId: Int,
      index: Int,
      laid: Array[LaidSegment],
      wanted: mutable.LongMap[Long]): Option[AcceptedChunk] = {
    val leftOut = Set.newBuilder[Int]
    var taken = 0
    var i = 0
    while (i < laid.length) {
      val block = key(reduceId, laid(i).mapIndex)
      val attempt = wanted.getOrElse(block, NoAttempt)
      if (attempt != NoAttempt && attempt == laid(i).mapId) {
        wanted -= block
        taken += 1
      } else {
        leftOut += i
      }
      i += 1
    }
    val chunk = AcceptedChunk(index, laid, leftOut.result())
    if (taken > 0 && chunk.sizeBytes * MinWantedPart >= chunk.laidBytes) {
      Some(chunk)
    } else {
      chunk.segments.foreach { segment =>
        wanted.update(key(reduceId, segment.mapIndex), segment.mapId)
      }
      None
    }
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
