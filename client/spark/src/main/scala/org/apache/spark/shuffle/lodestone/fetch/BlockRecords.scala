// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout}
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/** An original of which is known how many records its map task wrote into it, and where it is. */
private[fetch] final case class CountedBlock(
    id: ShuffleBlockId,
    address: BlockManagerId,
    mapIndex: Int,
    records: Int)

/**
 * How many records map tasks wrote into their blocks, as they told it to services when they pushed
 * them. Of a shuffle in mode merge: a map has one segment in a partition.
 */
private[fetch] final class BlockRecords private (
    originals: FetchPlan.Blocks,
    layouts: Seq[PartitionLayout]) {

  /** Seldom asked for: when merged data has failed, or proved wrong. */
  private lazy val known: collection.Map[BlockId, CountedBlock] = {
    val told = mutable.LongMap.empty[LaidSegment]
    for (layout <- layouts; run <- layout.runs; segment <- run.segments) {
      told.put(FetchPlan.key(layout.reduceId, segment.mapIndex), segment)
    }
    val found = mutable.HashMap.empty[BlockId, CountedBlock]
    for ((address, blocks) <- originals; (block, _, mapIndex) <- blocks) block match {
      case id: ShuffleBlockId =>
        told.get(FetchPlan.key(id.reduceId, mapIndex)).foreach { segment =>
          if (segment.mapId == id.mapId && segment.records >= 0) {
            found.put(id, CountedBlock(id, address, mapIndex, segment.records))
          }
        }
      case _ =>
    }
    found
  }

  def of(id: BlockId): Option[CountedBlock] = known.get(id)

  def size: Int = known.size
}

private[fetch] object BlockRecords {
  val Unknown: BlockRecords = new BlockRecords(Nil, Nil)

  def apply(originals: FetchPlan.Blocks, layouts: Seq[PartitionLayout]): BlockRecords =
    new BlockRecords(originals, layouts)
}
