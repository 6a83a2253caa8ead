// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.PartitionLayout
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/**
 * Where each block of a reduce task comes from. The blocks are those of `MapOutputTracker`, no more
 * and no fewer: a chunk stands for exactly the originals of its segments.
 *
 * @param replaced
 *   the originals that the chunks stand for, for the case that a chunk fails
 * @param rejectedBlocks
 *   originals that are read although a service has merged a block of their map: see [[FetchPlan]]
 * @param counted
 *   what services told of the originals, whether those are read or replaced
 * @param isDistrusted
 *   merged data proved wrong
 */
private[fetch] final case class FetchPlan(
    merged: Seq[MergedPartition],
    originals: FetchPlan.Blocks,
    replaced: FetchPlan.Blocks,
    rejectedBlocks: Int,
    counted: LaidRecords = LaidRecords.Unknown,
    isDistrusted: Boolean = false)

private[fetch] object FetchPlan {

  /** As Spark has it: a block with its size and map index. */
  type Block = (BlockId, Long, Int)
  type BlockList = collection.Seq[Block]

  /** Blocks by the address that serves them. */
  type Blocks = Seq[(BlockManagerId, BlockList)]

  def countOf(blocks: Blocks): Int = blocks.iterator.map(_._2.size).sum

  /** Those that have blocks, in order. */
  def partitionsOf(blocks: Blocks): Seq[Int] = {
    val found = mutable.BitSet.empty
    for ((_, list) <- blocks; (id, _, _) <- list) found ++= partitionOf(id)
    found.toSeq
  }

  /** Of a block of this shuffle. */
  def partitionOf(id: BlockId): Option[Int] = id match {
    case ShuffleBlockId(_, _, reduceId) => Some(reduceId)
    case _ => None
  }

  /** Spark counts attempts from 0. */
  private val NoAttempt = Long.MinValue

  /**
   * A segment is read if it is an original of this task, of the same map attempt, and was not met
   * before. Segments are whole frames: those of a chunk are a stream, whatever lay between them.
   */
  def apply(originals: Blocks, layouts: Seq[(ServiceLocation, PartitionLayout)]): FetchPlan = {
    val wanted = attempts(originals)
    val allOurs = wanted.size == countOf(originals)
    val chunks = layouts.flatMap { case (service, layout) => take(service, layout, wanted) }
    val merged = ReadOrder(chunks, concatenable = true)
    // The usual case, in which nothing need be told apart block by block.
    val counted = LaidRecords(originals, layouts.map(_._2))
    if (wanted.isEmpty && allOurs) FetchPlan(merged, Nil, originals, 0, counted)
    else
      FetchPlan(
        merged,
        select(originals)(wanted.contains, others = true),
        select(originals)(!wanted.contains(_), others = false),
        offered(layouts, wanted.contains),
        counted)
  }

  /** How many of those blocks are in the layouts. */
  private def offered(
      layouts: Seq[(ServiceLocation, PartitionLayout)],
      block: Long => Boolean): Int = {
    val found = mutable.HashSet.empty[Long]
    for ((_, layout) <- layouts; run <- layout.runs; segment <- run.segments) {
      val offer = key(layout.reduceId, segment.mapIndex)
      if (block(offer)) found += offer
    }
    found.size
  }

  /** Takes what is read of the partition out of `wanted`. This runs per segment: no sets. */
  private def take(
      service: ServiceLocation,
      layout: PartitionLayout,
      wanted: mutable.LongMap[Long]): IndexedSeq[MergedChunk] = {
    val cut = new ChunkCut(service, layout.reduceId)
    layout.runs.foreach { run =>
      var i = 0
      while (i < run.segments.length) {
        val segment = run.segments(i)
        val block = key(layout.reduceId, segment.mapIndex)
        val attempt = wanted.getOrElse(block, NoAttempt)
        if (attempt != NoAttempt && attempt == segment.mapId) {
          wanted -= block
          cut.add(run.first + i, segment)
        }
        i += 1
      }
    }
    cut.result()
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

  private[fetch] def key(reduceId: Int, mapIndex: Int): Long =
    (reduceId.toLong << 32) | (mapIndex & 0xffffffffL)
}
