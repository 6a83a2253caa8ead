// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.CountedMaps
import org.apache.spark.shuffle.lodestone.wire.PartitionLayout
import org.apache.spark.storage.{BlockId, ShuffleBlockBatchId, ShuffleBlockId}

/** How many records map tasks wrote into originals. */
private[fetch] trait BlockRecords {

  /** Returns the number of a block, or of several that are fetched as one, or `NotCounted`. */
  def in(id: BlockId): Long

  /** The other one is asked for what this one does not know. */
  final def orElse(other: => BlockRecords): BlockRecords = id => {
    val counted = in(id)
    if (counted == BlockRecords.NotCounted) other.in(id) else counted
  }
}

private[fetch] object BlockRecords {
  val NotCounted: Long = -1
  val Unknown: BlockRecords = _ => NotCounted
}

/**
 * Numbers of records that services got with the pushed blocks, if executors keep the map outputs:
 * then a block is one segment. A layout may show two attempts of a map; only that of the original
 * counts.
 */
private[fetch] final case class LaidRecords(
    originals: ReadSources.BlocksByAddress,
    layouts: Seq[PartitionLayout])
    extends BlockRecords {

  /** By map id and partition. Seldom needed: when merged data has failed, or proved wrong. */
  private lazy val known: Map[(Long, Int), Long] = {
    val wanted = WantedBlocks(originals.map(_._2), _ => 0)
    val found = for {
      layout <- layouts.iterator
      blocks <- wanted.get(layout.reduceId).iterator
      run <- layout.runs.iterator
      segment <- run.segments.iterator if segment.records >= 0 && blocks.isFrom(segment)
    } yield (segment.mapId, layout.reduceId) -> segment.records.toLong
    found.toMap
  }

  override def in(id: BlockId): Long = id match {
    case ShuffleBlockId(_, mapId, reduceId) =>
      known.getOrElse((mapId, reduceId), BlockRecords.NotCounted)
    case _ => BlockRecords.NotCounted
  }

  def size: Int = known.size
}

/**
 * The numbers that map tasks reported to the driver. A block is of the attempt that its name says:
 * the reports of other attempts of the map do not matter.
 */
private[fetch] final class CountedRecords(answers: Seq[CountedMaps]) extends BlockRecords {

  /** By map id, the answer that has its row. */
  private val rows = {
    val byMapId = mutable.LongMap.empty[(CountedMaps, Int)]
    for (answer <- answers; row <- 0 until answer.mapIds.length) {
      byMapId.put(answer.mapIds(row), (answer, row))
    }
    byMapId
  }

  /** Objects around the numbers of one attempt. */
  private val BytesAround = 64L

  /** Its approximate size in memory. */
  def bytes: Long =
    answers.iterator.map(_.records.bytes.toLong).sum +
      (rows.size + 1L) * BytesAround

  override def in(id: BlockId): Long = id match {
    case ShuffleBlockId(_, mapId, reduceId) => in(mapId, reduceId, reduceId + 1)
    case ShuffleBlockBatchId(_, mapId, startReduceId, endReduceId) =>
      in(mapId, startReduceId, endReduceId)
    case _ => BlockRecords.NotCounted
  }

  private def in(mapId: Long, startPartition: Int, endPartition: Int): Long =
    rows.getOrNull(mapId) match {
      case (answer, row)
          if startPartition >= answer.startPartition && endPartition <= answer.endPartition =>
        answer.in(row, startPartition, endPartition)
      case _ => BlockRecords.NotCounted
    }
}
