// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.storage.{BlockId, ShuffleBlockChunkId, ShuffleBlockId}

/** Compares the records that come out of each stream with those that its map tasks wrote. */
private[fetch] sealed abstract class RecordsCheck(counted: BlockRecords) {

  def apply[T](id: BlockId, records: Iterator[T]): Iterator[T] = id match {
    case chunk: ShuffleBlockChunkId => ofChunk(chunk, records)
    case _: ShuffleBlockId => ofOriginal(id, records)
    case _ => records
  }

  protected def ofChunk[T](id: ShuffleBlockChunkId, records: Iterator[T]): Iterator[T]

  private def ofOriginal[T](id: BlockId, records: Iterator[T]): Iterator[T] =
    counted.of(id) match {
      case Some(block) =>
        new RecordsCheck.Counted(records, block.records.toLong)(RecordsCheck.contradicted(block, _))
      case None => records
    }
}

private[fetch] object RecordsCheck {

  /** Of merged chunks, and of originals that are read in their place. */
  final class OfMerged(
      merged: Seq[MergedPartition],
      counted: BlockRecords,
      failure: MergedFailure)
      extends RecordsCheck(counted) {
    private val portions =
      merged.map(partition => partition.reduceId -> partition.portions).toMap

    override protected def ofChunk[T](
        id: ShuffleBlockChunkId,
        records: Iterator[T]): Iterator[T] =
      portions(id.reduceId)(id.chunkId).records match {
        case Some(written) =>
          new Counted(records, written)(failure.miscounted(id.reduceId, _, written))
        case None => records
      }
  }

  /** Of originals alone. */
  final class OfOriginals(counted: BlockRecords) extends RecordsCheck(counted) {
    override protected def ofChunk[T](
        id: ShuffleBlockChunkId,
        records: Iterator[T]): Iterator[T] = records
  }

  /**
   * A map output that has not what its map task wrote: Spark has the map run again, as if the block
   * could not be read. Constructing the exception marks the task.
   */
  private def contradicted(block: CountedBlock, read: Long): Nothing = {
    val id = block.id
    val what = s"The original $id gave $read records where ${block.records} were written"
    throw new FetchFailedException(
      block.address,
      id.shuffleId,
      id.mapId,
      block.mapIndex,
      id.reduceId,
      s"$what; its map is run again.")
  }

  private final class Counted[T](records: Iterator[T], written: Long)(wrong: Long => Nothing)
      extends Iterator[T] {
    private var read = 0L

    override def hasNext: Boolean = {
      val more = records.hasNext
      if (!more && read != written) wrong(read)
      more
    }

    override def next(): T = {
      val record = records.next()
      read += 1
      record
    }
  }
}
