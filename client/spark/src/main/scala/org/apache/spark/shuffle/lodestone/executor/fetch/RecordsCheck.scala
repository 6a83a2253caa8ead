// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.util.control.NonFatal

import org.apache.spark.{TaskContext, TaskKilledException}
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.storage._

/** Compares each stream that a task reads with the number of records that were written. */
private[fetch] trait RecordsCheck {

  /** Called before a stream is read. */
  def begin(id: BlockId): Unit

  /** The number for a stream that was read to its end, or [[BlockRecords.NotCounted]]. */
  def written(id: BlockId): Long

  /** The bytes of a stream, if they are known before it is read. */
  def bytesOf(id: BlockId): Option[Long] = None

  /** For a stream that had another number. */
  def wrong(id: BlockId, read: Long, written: Long): Nothing

  /** For a stream whose bytes are no records. */
  def broken(id: BlockId, cause: Throwable): Nothing

  /** For Spark's own failure, while it fetches or reads a stream. */
  def failed(failure: FetchFailedException): Nothing = throw failure

  /** Spark's own failure, with which its exception has marked the task. Spark reports the mark. */
  private def marked: Option[FetchFailedException] =
    Option(TaskContext.get()).flatMap(_.fetchFailed)

  /**
   * Ends the task for all that serializers, codecs and engines throw for wrong bytes.
   *
   * @param block
   *   the stream that is being read
   */
  final def brokenStream(block: () => Option[BlockId]): PartialFunction[Throwable, Nothing] = {
    case failure: FetchFailedException => this.failed(failure)
    case killed: TaskKilledException => throw killed
    // Kryo, Java, zstd and Comet have no exception in common. The task always ends: no row is lost.
    // Java's serializer throws an exception of its own if an object's readObject meets Spark's.
    case NonFatal(cause) if marked.isDefined || block().isDefined =>
      marked.foreach(this.failed)
      broken(block().get, cause)
  }
}

/**
 * The check of originals. `tally` counts those whose number should be known and is not. Without a
 * number, a suspect has its map run again.
 */
private[fetch] final class OriginalsCheck(
    counted: BlockRecords,
    originals: ReadSources.BlocksByAddress,
    tally: Option[ReadTally],
    suspects: Option[Suspects] = None)
    extends RecordsCheck {

  /** Refuses a suspect before its first row: a task may not read it to its end. */
  override def begin(id: BlockId): Unit = {
    def mapId = OriginalsCheck.mapOf(id)._2
    for (found <- suspects if found.has(mapId) && counted.in(id) == BlockRecords.NotCounted) {
      // The failed read names one map, and a stage has too few attempts to find them one by one.
      found.runAgain()
      runAgain(id, "may be as wrong as its merged copy, and nobody knows its number of records")
    }
  }

  override def written(id: BlockId): Long = {
    val number = counted.in(id)
    if (number == BlockRecords.NotCounted) {
      tally.foreach(_.fallback(Reason.RecordsUnchecked, OriginalsCheck.blocksIn(id)))
    }
    number
  }

  override def wrong(id: BlockId, read: Long, written: Long): Nothing =
    runAgain(id, s"gave $read records where $written were written")

  /** Spark runs the map again, as if nobody could read the block. The exception marks the task. */
  private def runAgain(id: BlockId, why: String): Nothing = {
    tally.foreach(_.fallback(Reason.OriginalMismatch, 1))
    val (shuffleId, mapId, reduceId) = OriginalsCheck.mapOf(id)
    val found = for {
      (address, blocks) <- originals.iterator
      (ShuffleBlockId(_, `mapId`, _), _, mapIndex) <- blocks.iterator
    } yield (address, mapIndex)
    val (address, mapIndex) = found.next()
    val what = s"The original $id $why; its map is run again."
    throw new FetchFailedException(address, shuffleId, mapId, mapIndex, reduceId, what)
  }

  /** As in plain Spark: it may be an object that nobody can read. Rows are bytes. */
  override def broken(id: BlockId, cause: Throwable): Nothing = cause match {
    case rows: BrokenRowsException => runAgain(id, s"is damaged (${rows.getMessage})")
    case _ => throw cause
  }
}

private[fetch] object OriginalsCheck {

  private def blocksIn(id: BlockId): Int = id match {
    case batch: ShuffleBlockBatchId => batch.endReduceId - batch.startReduceId
    case _ => 1
  }

  /** Names the first one of several partitions, as Spark does. */
  private def mapOf(id: BlockId): (Int, Long, Int) = id match {
    case ShuffleBlockId(shuffleId, mapId, reduceId) => (shuffleId, mapId, reduceId)
    case ShuffleBlockBatchId(shuffleId, mapId, startReduceId, _) =>
      (shuffleId, mapId, startReduceId)
    case other => throw new IllegalStateException(s"$other is not an original")
  }
}
