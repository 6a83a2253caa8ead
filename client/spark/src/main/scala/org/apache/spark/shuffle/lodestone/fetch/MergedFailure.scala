// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.util.concurrent.TimeoutException

import scala.concurrent.Await
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.FetchFailed
import org.apache.spark.shuffle.{FetchFailedException, MetadataFetchFailedException}
import org.apache.spark.shuffle.lodestone.driver.{DriverLink, ShuffleGeneration}
import org.apache.spark.storage.BlockManagerId

/**
 * A chunk that breaks while its records are read: its checksum was right, so the blocks were bad
 * before they were pushed. Spark's iterator then blames the merger, and on that, with Spark's own
 * push-based shuffle off, the DAG scheduler asserts and takes the whole application down. Instead
 * the driver is told to leave the merged partition alone, and the stage is repeated: its next attempt
 * reads the originals, and a bad one of them is found and rerun as always.
 */
private[fetch] final class MergedFailure(generation: ShuffleGeneration, driver: DriverLink) {
  private val log = LoggerFactory.getLogger(classOf[MergedFailure])

  /** The records, with failures of merged chunks translated. */
  def guard[T](records: Iterator[T]): Iterator[T] = new Iterator[T] {
    override def hasNext: Boolean = translated(records.hasNext)
    override def next(): T = translated(records.next())
  }

  private def translated[T](read: => T): T =
    try {
      read
    } catch {
      case failure: FetchFailedException =>
        failure.toTaskFailedReason match {
          case FetchFailed(address, _, _, _, reduceId, message) if isMerger(address) =>
            exclude(reduceId)
            // Constructing it marks the task; this mark replaces the one that names the merger.
            throw new MetadataFetchFailedException(
              generation.shuffleId,
              reduceId,
              s"A merged chunk of partition $reduceId broke while it was read; " +
                s"the next attempt reads the original blocks. $message")
          case _ => throw failure
        }
    }

  private def isMerger(address: BlockManagerId): Boolean =
    address != null && address.executorId == BlockManagerId.SHUFFLE_MERGER_IDENTIFIER

  /** Before the failure is thrown, so that the next attempt cannot be quicker. */
  private def exclude(reduceId: Int): Unit =
    try {
      Await.result(driver.exclude(generation, reduceId), driver.patience)
    } catch {
      case _: TimeoutException => log.warn(s"The driver did not note that $reduceId is excluded")
      // Without the note the stage may fail once more; without the exception below it would be
      // the whole application.
      case NonFatal(failure) => log.warn(s"Partition $reduceId could not be excluded", failure)
    }
}
