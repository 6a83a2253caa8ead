// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.ConcurrentHashMap

import scala.concurrent.Future

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.MetadataFetchFailedException
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{Distrust, DistrustMerged, Reason, ShuffleGeneration}
import org.apache.spark.storage.ShuffleBlockId

/** The reaction of a task to a chunk that it cannot fetch, or that proves wrong as it is read. */
private[fetch] trait Fallback {

  /** Called before the iterator gets the failure, on a network thread. */
  def chunkFailed(reduceId: Int, chunk: FetchChunk, reason: Reason, cause: Throwable): Unit

  /** Returns the blocks of these maps that are read instead. Called on the task's thread. */
  def apply(reduceId: Int, maps: Int => Boolean): ReadSources.BlocksByAddress

  /** Ends the task for wrong data. The driver knows before the next attempt starts. */
  def end(reduceId: Int, reason: Reason, what: String): Nothing

  /**
   * True if the same blocks are elsewhere too, and may be good there. If not, the bytes may be an
   * object that nobody can read, and another run of the stage would hide the user's own error.
   */
  def hasOther: Boolean
}

/** The search of a task that has no originals for other copies of its chunks. */
private[fetch] trait ChunkRescue {

  /**
   * Returns the same segments for each chunk, in their order: to be read once more, or from
   * elsewhere. Called on a network thread, which must not block.
   *
   * @param chunks
   *   chunks that one service did not send, for one cause
   * @param failedNs
   *   when the first of them failed for the first time
   */
  def apply(
      chunks: Seq[FetchChunk],
      cause: Throwable,
      failedNs: Long): Future[Seq[Option[FetchChunk]]]
}

/** The task reads the blocks that executors have kept. */
private[fetch] final class Originals(
    sources: ReadSources,
    generation: ShuffleGeneration,
    driver: DriverLink,
    tally: ReadTally,
    context: TaskContext)
    extends Fallback {

  /** The partitions of a portion that has several, under the name of the first one. */
  private val together = sources.merged.collect {
    case one if one.reduceIds.size > 1 => one.reduceId -> one.reduceIds
  }.toMap

  /** Why the last chunk of a partition failed. The iterator gives up its pending chunks too. */
  private val failures = new ConcurrentHashMap[Int, Reason]()

  override def chunkFailed(
      reduceId: Int,
      chunk: FetchChunk,
      reason: Reason,
      cause: Throwable): Unit = {
    failures.put(reduceId, reason)
    ()
  }

  override def apply(reduceId: Int, maps: Int => Boolean): ReadSources.BlocksByAddress = {
    val found = ReadSources.select(sources.replaced) {
      case (ShuffleBlockId(_, _, partition), _, mapIndex) =>
        together.get(reduceId).fold(partition == reduceId && maps(mapIndex))(_(partition))
      case _ => false
    }
    val count = ReadSources.countOf(found)
    tally.originals(count)
    tally.fallback(Option(failures.get(reduceId)).getOrElse(Reason.ChunkFetchFailed), count)
    found
  }

  override val hasOther: Boolean = true

  /**
   * The next attempt of the stage reads the originals. If one of these is bad too, the attempt
   * finds it, and Spark runs its map again.
   */
  override def end(reduceId: Int, reason: Reason, what: String): Nothing = {
    // Another thread of the task may read on when the task is over, and its buffers are released.
    context.killTaskIfInterrupted()
    if (context.isCompleted()) throw new IllegalStateException(s"the task is over: $what")
    val found = DistrustMerged(generation, reduceId, Distrust(reason, context.taskAttemptId()))
    driver.awaitAnswer(driver.ask(found), s"the report that $generation is wrong")
    throw new MetadataFetchFailedException(
      generation.shuffleId,
      reduceId,
      s"$what; the next attempt reads the original blocks.")
  }
}
