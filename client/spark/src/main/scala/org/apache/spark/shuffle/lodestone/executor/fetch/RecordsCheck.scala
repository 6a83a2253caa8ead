// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.storage._

/** With how many records each stream that a task reads is compared. */
private[fetch] trait RecordsCheck {

  /**
   * How many map tasks wrote into the stream; [[BlockRecords.NotTold]] where that is not known. It is asked
   * once for each stream, when all of it has been read.
   */
  def written(id: BlockId): Long

  /** It gave another number. */
  def wrong(id: BlockId, read: Long, written: Long): Nothing

  /** Its bytes are not those of records. */
  def broken(id: BlockId, cause: Throwable): Nothing
}

/**
 * The check of originals.
 *
 * @param places
 *   where they are
 * @param tally
 *   counts originals whose number should be known and is not
 */
private[fetch] final class OriginalsCheck(
    counted: BlockRecords,
    places: FetchPlan.Blocks,
    tally: Option[ReadTally])
    extends RecordsCheck {

  override def written(id: BlockId): Long = {
    val told = counted.in(id)
    if (told == BlockRecords.NotTold) {
      tally.foreach(_.fallback(Reason.RecordsUnchecked, OriginalsCheck.blocksIn(id)))
    }
    told
  }

  /**
   * A map output that has not what its map task wrote: Spark has the map run again, as if the block
   * could not be read. Constructing the exception marks the task.
   */
  override def wrong(id: BlockId, read: Long, written: Long): Nothing = {
    tally.foreach(_.fallback(Reason.OriginalMismatch, 1))
    val (shuffleId, mapId, reduceId) = OriginalsCheck.mapOf(id)
    val found = for {
      (address, blocks) <- places.iterator
      (ShuffleBlockId(_, `mapId`, _), _, mapIndex) <- blocks.iterator
    } yield (address, mapIndex)
    val (address, mapIndex) = found.next()
    throw new FetchFailedException(
      address,
      shuffleId,
      mapId,
      mapIndex,
      reduceId,
      s"The original $id gave $read records where $written were written; its map is run again.")
  }

  /** As on plain Spark: it may be an object that nobody can read. */
  override def broken(id: BlockId, cause: Throwable): Nothing = throw cause
}

private[fetch] object OriginalsCheck {

  private def blocksIn(id: BlockId): Int = id match {
    case batch: ShuffleBlockBatchId => batch.endReduceId - batch.startReduceId
    case _ => 1
  }

  /** Of several partitions it is the first, as where Spark itself cannot read them. */
  private def mapOf(id: BlockId): (Int, Long, Int) = id match {
    case ShuffleBlockId(shuffleId, mapId, reduceId) => (shuffleId, mapId, reduceId)
    case ShuffleBlockBatchId(shuffleId, mapId, startReduceId, _) =>
      (shuffleId, mapId, startReduceId)
    case other => throw new IllegalStateException(s"$other is not an original")
  }
}

/** Of merged chunks, and of originals that are read in their place. */
private[fetch] final class MergedCheck(
    merged: Seq[MergedPartition],
    originals: OriginalsCheck,
    failure: MergedFailure)
    extends RecordsCheck {
  private val portions =
    merged.map(partition => partition.reduceId -> partition.portions).toMap

  override def written(id: BlockId): Long = id match {
    case chunk: ShuffleBlockChunkId =>
      portions(chunk.reduceId)(chunk.chunkId).records.getOrElse(BlockRecords.NotTold)
    case _ => originals.written(id)
  }

  override def wrong(id: BlockId, read: Long, written: Long): Nothing = id match {
    case chunk: ShuffleBlockChunkId => failure.miscounted(chunk.reduceId, read, written)
    case _ => originals.wrong(id, read, written)
  }

  override def broken(id: BlockId, cause: Throwable): Nothing = id match {
    case chunk: ShuffleBlockChunkId => failure.broken(chunk.reduceId, cause)
    case _ => originals.broken(id, cause)
  }
}
