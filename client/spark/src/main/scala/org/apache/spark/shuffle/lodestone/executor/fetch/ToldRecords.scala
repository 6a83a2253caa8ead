// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.CountedMaps
import org.apache.spark.storage.{BlockId, ShuffleBlockBatchId, ShuffleBlockId}

/**
 * As map tasks told it to the driver. A block is of the attempt that its name says, and has nothing to do
 * with what other attempts of the map told.
 */
private[fetch] final class ToldRecords(answers: Seq[CountedMaps]) extends BlockRecords {
  import ToldRecords.Row

  private val rows = {
    val byMapId = mutable.LongMap.empty[Row]
    for (answer <- answers; row <- 0 until answer.mapIds.length) {
      byMapId.put(answer.mapIds(row), new Row(answer, row))
    }
    byMapId
  }

  /** What it takes in memory, about. */
  def bytes: Long =
    answers.iterator.map(_.records.bytes.toLong).sum + (rows.size + 1L) * ToldRecords.BytesAround

  override def in(id: BlockId): Long = id match {
    case ShuffleBlockId(_, mapId, reduceId) => in(mapId, reduceId, reduceId + 1)
    case ShuffleBlockBatchId(_, mapId, startReduceId, endReduceId) =>
      in(mapId, startReduceId, endReduceId)
    case _ => BlockRecords.NotTold
  }

  private def in(mapId: Long, startPartition: Int, endPartition: Int): Long =
    rows.get(mapId).fold(BlockRecords.NotTold)(_.in(startPartition, endPartition))
}

private object ToldRecords {

  /** Objects around the numbers of one attempt. */
  private val BytesAround = 64L

  private final class Row(answer: CountedMaps, row: Int) {
    def in(startPartition: Int, endPartition: Int): Long =
      if (startPartition < answer.startPartition || endPartition > answer.endPartition) {
        BlockRecords.NotTold
      } else {
        answer.in(row, startPartition, endPartition)
      }
  }
}
