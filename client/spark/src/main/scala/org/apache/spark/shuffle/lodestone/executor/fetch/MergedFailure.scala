// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.{FetchFailed, TaskContext}
import org.apache.spark.shuffle.{FetchFailedException, MetadataFetchFailedException}
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{Reason, ShuffleGeneration}
import org.apache.spark.storage.BlockManagerId

/**
 * Merged data that proves wrong while its records are read: a chunk breaks (its checksum was right,
 * so the blocks were bad before they were pushed), or has other than the written number of records.
 * The driver is told to leave the merged shuffle alone, and the stage is repeated: its next attempt
 * reads the originals, and a bad one of them is found and rerun as always.
 *
 * Spark's iterator blames the merger for a broken chunk, and on that, with Spark's own push-based
 * shuffle off, the DAG scheduler asserts and takes the whole application down.
 */
private[fetch] final class MergedFailure(wrong: WrongData) {

  /** The records, with failures of merged chunks translated. No closures: this runs per record. */
  def guard[T](records: Iterator[T]): Iterator[T] = new Iterator[T] {
    override def hasNext: Boolean =
      try records.hasNext
      catch translated

    override def next(): T =
      try records.next()
      catch translated
  }

  def miscounted(reduceId: Int, read: Long, written: Long): Nothing =
    distrust(
      reduceId,
      Reason.RecordsMismatch,
      s"A merged chunk of partition $reduceId gave $read records where $written were written")

  /** Its checksum was right, and it gave something else than records. */
  def broken(reduceId: Int, cause: Throwable): Nothing =
    if (wrong.hasOther) {
      val what = s"A merged chunk of partition $reduceId broke while it was read ($cause)"
      distrust(reduceId, Reason.ChunkBroken, what)
    } else {
      throw cause
    }

  private val translated: PartialFunction[Throwable, Nothing] = {
    case failure: FetchFailedException =>
      failure.toTaskFailedReason match {
        case FetchFailed(address, _, _, _, reduceId, message) if isMerger(address) =>
          unmark()
          val what = s"A merged chunk of partition $reduceId broke while it was read ($message)"
          distrust(reduceId, Reason.ChunkBroken, what)
        case _ => throw failure
      }
  }

  /** Spark's exception has marked the task, and Spark reports the mark whatever the task ends with. */
  private def unmark(): Unit = Option(TaskContext.get()).foreach(_.setFetchFailed(null))

  private def isMerger(address: BlockManagerId): Boolean =
    address != null && address.executorId == BlockManagerId.SHUFFLE_MERGER_IDENTIFIER

  private def distrust(reduceId: Int, why: Reason, what: String): Nothing =
    wrong.end(reduceId, why, what)
}

/** What a task does about wrong data that it has read. */
private[fetch] trait WrongData {

  /** Ends the task, once the driver knows: the next attempt must not be quicker. */
  def end(reduceId: Int, why: Reason, what: String): Nothing

  /**
   * The same blocks are elsewhere as well, and may be good. Else it may be an object that nobody can read,
   * and to repeat the stage for it would hide the user's own error.
   */
  def hasOther: Boolean
}

/** Later attempts leave the merged data alone. */
private[fetch] final class DistrustedMerge(generation: ShuffleGeneration, driver: DriverLink)
    extends WrongData {
  override val hasOther: Boolean = true

  override def end(reduceId: Int, why: Reason, what: String): Nothing = {
    driver.awaitAnswer(driver.distrust(generation, reduceId, why), s"$generation is wrong")
    throw new MetadataFetchFailedException(
      generation.shuffleId,
      reduceId,
      s"$what; the next attempt reads the original blocks.")
  }
}
