// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout}
import org.apache.spark.storage.{BlockId, ShuffleBlockId}

/** How many records map tasks wrote into originals. */
private[fetch] trait BlockRecords {

  /** Of a block, or of several that are fetched as one; [[BlockRecords.NotTold]] where nobody told. */
  def in(id: BlockId): Long

  /** What the other one knows counts where this one does not know. */
  final def orElse(other: BlockRecords): BlockRecords = id => {
    val told = in(id)
    if (told == BlockRecords.NotTold) other.in(id) else told
  }
}

private[fetch] object BlockRecords {
  val NotTold: Long = -1
  val Unknown: BlockRecords = _ => NotTold
}

/**
 * As map tasks told it to services when they pushed the blocks. Of a shuffle in mode merge: a map has one
 * segment in a partition.
 */
private[fetch] final class LaidRecords private (
    originals: FetchPlan.Blocks,
    layouts: Seq[PartitionLayout])
    extends BlockRecords {

  /** Seldom asked for: when merged data has failed, or proved wrong. */
  private lazy val known: collection.Map[BlockId, Long] = {
    val told = mutable.LongMap.empty[LaidSegment]
    for (layout <- layouts; run <- layout.runs; segment <- run.segments) {
      told.put(FetchPlan.key(layout.reduceId, segment.mapIndex), segment)
    }
    val found = mutable.HashMap.empty[BlockId, Long]
    for ((_, blocks) <- originals; (block, _, mapIndex) <- blocks) block match {
      case id: ShuffleBlockId =>
        told.get(FetchPlan.key(id.reduceId, mapIndex)).foreach { segment =>
          if (segment.mapId == id.mapId && segment.records >= 0) {
            found.put(id, segment.records.toLong)
          }
        }
      case _ =>
    }
    found
  }

  override def in(id: BlockId): Long = known.getOrElse(id, BlockRecords.NotTold)

  def size: Int = known.size
}

private[fetch] object LaidRecords {
  val Unknown: LaidRecords = new LaidRecords(Nil, Nil)

  def apply(originals: FetchPlan.Blocks, layouts: Seq[PartitionLayout]): LaidRecords =
    new LaidRecords(originals, layouts)
}
