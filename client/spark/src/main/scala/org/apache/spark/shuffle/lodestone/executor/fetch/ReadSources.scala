// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.PartitionLayout
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/**
 * Where a reduce task reads each block. It reads exactly the blocks that `MapOutputTracker` names:
 * a chunk stands for exactly the blocks of its segments.
 *
 * @param replaced
 *   the originals that the chunks stand for, to be read if a chunk fails
 * @param rejectedBlocks
 *   originals that are read although a service has a block of their map, of another attempt
 * @param counted
 *   the numbers of records that services have of the originals, whether these are read or replaced
 * @param suspects
 *   originals that may be as wrong as merged data proved, if their numbers of records are unknown
 */
private[fetch] final case class ReadSources(
    merged: Seq[FetchPartition],
    originals: ReadSources.BlocksByAddress,
    replaced: ReadSources.BlocksByAddress = Nil,
    rejectedBlocks: Int = 0,
    counted: LaidRecords = LaidRecords(Nil, Nil),
    suspects: Option[Suspects] = None) {

  /**
   * The bytes to read, at most: the lengths of merged blocks are known, and of originals the sizes
   * that Spark sees.
   */
  def mostBytes: Long =
    merged.iterator.map(_.sizeBytes).sum +
      originals.iterator.flatMap(_._2.iterator).map(_._2).sum
}

/**
 * The blocks of maps that had begun when merged data proved wrong. One whose number of records is
 * unknown may be as wrong: it may have been merged, and dropped by its service since.
 *
 * @param runAgain
 *   makes Spark run all maps with ids below `taskId` again
 */
private[fetch] final case class Suspects(taskId: Long, runAgain: () => Unit) {
  def has(mapId: Long): Boolean = mapId < taskId
}

private[fetch] object ReadSources {

  /** As Spark has it: a block with its size and map index. */
  type Block = (BlockId, Long, Int)
  type BlockList = collection.Seq[Block]

  /** Blocks by the address that serves them. */
  type BlocksByAddress = Seq[(BlockManagerId, BlockList)]

  def countOf(blocks: BlocksByAddress): Int = blocks.iterator.map(_._2.size).sum

  /** The partitions that have blocks, in order. This loop is hot: no object for each block. */
  def partitionsOf(lists: Seq[BlockList]): Seq[Int] = {
    val found = mutable.BitSet.empty
    for (list <- lists; (id, _, _) <- list) id match {
      case ShuffleBlockId(_, _, reduceId) => found += reduceId
      case _ =>
    }
    found.toSeq
  }

  def select(blocks: BlocksByAddress)(which: Block => Boolean): BlocksByAddress =
    blocks.map { case (address, list) => address -> list.filter(which) }.filter(_._2.nonEmpty)

  /**
   * Returns the sources of a merged shuffle. The task reads a segment if it is a block that the
   * task needs, if Spark accepted its map attempt, and if no service gave the block before.
   * Segments are whole frames, so the segments of a chunk form one stream. The task reads blocks of
   * another kind as originals.
   */
  def apply(
      originals: BlocksByAddress,
      layouts: Seq[(ServiceLocation, PartitionLayout)]): ReadSources = {
    val wanted = WantedBlocks(originals.map(_._2), _ => 0)
    val blocksLeft = () => wanted.valuesIterator.map(_.size).sum
    val allOurs = blocksLeft() == countOf(originals)
    val chunks = layouts.flatMap { case (service, layout) =>
      val cut = new ChunkCut(service, layout.reduceId)
      wanted.get(layout.reduceId).foreach(blocks => cut.addFrom(layout)(blocks.take))
      cut.result()
    }
    val merged = ReadOrder(chunks, concatenable = true)
    val counted = LaidRecords(originals, layouts.map(_._2))
    // In the usual case all blocks are merged, and none has to be selected.
    if (allOurs && blocksLeft() == 0) {
      ReadSources(merged, Nil, originals, counted = counted)
    } else {
      val isOriginal: Block => Boolean = {
        case (ShuffleBlockId(_, _, reduceId), _, mapIndex) => wanted(reduceId).has(mapIndex)
        case _ => true
      }
      val left = select(originals)(isOriginal)
      val replaced = select(originals)(!isOriginal(_))
      ReadSources(merged, left, replaced, wanted.valuesIterator.map(_.rejected).sum, counted)
    }
  }
}
