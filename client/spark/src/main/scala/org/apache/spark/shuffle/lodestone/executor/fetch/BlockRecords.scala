// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.wire.PartitionLayout
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
 * Numbers of records that services got with the pushed blocks, if executors keep the map outputs: then
 * a block is one segment. A layout may show two attempts of a map; only that of the original counts.
 */
private[fetch] final class LaidRecords private (
    originals: FetchPlan.Blocks,
    layouts: Seq[PartitionLayout])
    extends BlockRecords {

  /** Seldom asked for: when merged data has failed, or proved wrong. */
  private lazy val known: collection.Map[BlockId, Long] = {
    val wanted = mutable.LongMap.empty[ShuffleBlockId]
    for ((_, blocks) <- originals; (block, _, mapIndex) <- blocks) block match {
      case id: ShuffleBlockId => wanted.put(FetchPlan.key(id.reduceId, mapIndex), id)
      case _ =>
    }
    val found = mutable.HashMap.empty[BlockId, Long]
    for {
      layout <- layouts
      run <- layout.runs
      segment <- run.segments if segment.records >= 0
      id <- wanted.get(FetchPlan.key(layout.reduceId, segment.mapIndex))
    } if (segment.mapId == id.mapId) found.put(id, segment.records.toLong)
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
