// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.{FetchFailed, TaskContext}
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockChunkId}

/**
 * Chunks that prove wrong while their records are read: one breaks (its checksum was right, so the
 * blocks were bad before they were pushed), or has another number of records than was written.
 * Originals that are read beside them, or instead of them, have a check of their own.
 */
private[fetch] final class ChunkCheck(
    merged: Seq[FetchPartition],
    originals: OriginalsCheck,
    fallback: Fallback)
    extends RecordsCheck {
  private val portions = merged.map(one => one.reduceId -> one.portions).toMap

  override def begin(id: BlockId): Unit = id match {
    case _: ShuffleBlockChunkId =>
    case _ => originals.begin(id)
  }

  override def written(id: BlockId): Long = id match {
    case chunk: ShuffleBlockChunkId =>
      portions(chunk.reduceId)(chunk.chunkId).records.getOrElse(BlockRecords.NotCounted)
    case _ => originals.written(id)
  }

  override def bytesOf(id: BlockId): Option[Long] = id match {
    case chunk: ShuffleBlockChunkId => Some(portions(chunk.reduceId)(chunk.chunkId).sizeBytes)
    case _ => None
  }

  override def wrong(id: BlockId, read: Long, written: Long): Nothing = id match {
    case ShuffleBlockChunkId(_, _, reduceId, _) =>
      val what =
        s"A merged chunk of partition $reduceId gave $read records where $written were written"
      fallback.end(reduceId, Reason.RecordsMismatch, what)
    case _ => originals.wrong(id, read, written)
  }

  override def broken(id: BlockId, cause: Throwable): Nothing = id match {
    case ShuffleBlockChunkId(_, _, reduceId, _) if fallback.hasOther =>
      broken(reduceId, cause.toString)
    case ShuffleBlockChunkId(_, _, reduceId, _) if cause.isInstanceOf[BrokenRowsException] =>
      broken(reduceId, cause.getMessage)
    // It may be an object that nobody can read.
    case _: ShuffleBlockChunkId => throw cause
    case _ => originals.broken(id, cause)
  }

  /**
   * Spark's iterator blames the merger for a broken chunk. With Spark's own push-based shuffle off,
   * the DAG scheduler asserts on that and ends the whole application: so that failure is
   * translated.
   */
  override def failed(failure: FetchFailedException): Nothing =
    failure.toTaskFailedReason match {
      case FetchFailed(address, _, _, _, reduceId, message) if isMerger(address) =>
        // Spark's exception has marked the task. Spark reports the mark, however the task ends.
        Option(TaskContext.get()).foreach(_.setFetchFailed(null))
        broken(reduceId, message)
      case _ => throw failure
    }

  private def isMerger(address: BlockManagerId): Boolean =
    address != null && address.executorId == BlockManagerId.SHUFFLE_MERGER_IDENTIFIER

  private def broken(reduceId: Int, how: String): Nothing = {
    val what = s"A merged chunk of partition $reduceId broke while it was read ($how)"
    fallback.end(reduceId, Reason.ChunkBroken, what)
  }
}
