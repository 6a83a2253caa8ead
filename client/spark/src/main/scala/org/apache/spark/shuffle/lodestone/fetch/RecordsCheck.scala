// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import org.apache.spark.storage.{BlockId, ShuffleBlockChunkId}

/** Compares the records that come out of each merged chunk with those that its map tasks wrote. */
private[fetch] final class RecordsCheck(merged: Seq[MergedPartition], failure: MergedFailure) {
  private val chunks = merged.map(partition => partition.reduceId -> partition.chunks).toMap

  def apply[T](id: BlockId, records: Iterator[T]): Iterator[T] = id match {
    case ShuffleBlockChunkId(_, _, reduceId, chunkId) =>
      chunks(reduceId)(chunkId).records match {
        case Some(written) => new Counted(records, reduceId, written)
        case None => records
      }
    case _ => records
  }

  private final class Counted[T](records: Iterator[T], reduceId: Int, written: Long)
      extends Iterator[T] {
    private var read = 0L

    override def hasNext: Boolean = {
      val more = records.hasNext
      if (!more && read != written) failure.miscounted(reduceId, read, written)
      more
    }

    override def next(): T = {
      val record = records.next()
      read += 1
      record
    }
  }
}
