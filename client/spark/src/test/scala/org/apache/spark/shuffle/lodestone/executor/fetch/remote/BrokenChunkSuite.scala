// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import java.io.{IOException, InputStream}

import scala.concurrent.Future
import scala.util.Try

import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.assertEquals

import org.apache.spark.{FetchFailed, SparkException, TaskContext, TaskKilledException}
import org.apache.spark.executor.TempShuffleReadMetrics
import org.apache.spark.shuffle.{FetchFailedException, MetadataFetchFailedException}
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.fetch._
import org.apache.spark.shuffle.lodestone.plan.OutputsLost
import org.apache.spark.storage.{BlockId, BlockManagerId}

/**
 * A chunk breaks while it is read. Spark's exception marks the task as failed by the merger: if
 * that mark reached the scheduler, its assertion would end the application.
 */
final class BrokenChunkSuite {
  private val context = TaskContext.empty()

  @BeforeEach def begin(): Unit = TaskContext.setTaskContext(context)

  @AfterEach def end(): Unit = TaskContext.unset()

  /** The end of the task for this answer to its claim, and the failure that Spark gets. */
  private def endedBy(
      answer: => Future[Boolean],
      wrap: FetchFailedException => Exception = identity): (Class[_], Option[Class[_]]) = {
    val driver = new SilentDriver {
      override def lost(outputs: OutputsLost): Future[Boolean] = answer
    }
    val broken = new Iterator[(BlockId, InputStream)] {
      private val merger =
        BlockManagerId(BlockManagerId.SHUFFLE_MERGER_IDENTIFIER, "lodestone-host", 1)
      override def hasNext: Boolean =
        throw wrap(new FetchFailedException(merger, 3, -1L, -1, 0, "the stream is corrupted"))
      override def next(): (BlockId, InputStream) = throw new NoSuchElementException
    }
    val none = new OriginalsCheck(BlockRecords.Unknown, Nil, None)
    val loss = new OutputLoss(3, 0, driver, "executor-1", context)
    val check = new ChunkCheck(Nil, none, loss)
    val task = ReduceTask(ReadRange(0, 1, 0, 1), context, new TempShuffleReadMetrics)
    val thrown =
      Try(new CheckedRecords(broken, _ => Iterator.empty, check, task).hasNext).failed.get
    (thrown.getClass, context.fetchFailed.map(_.getClass))
  }

  @Test def `a driver that is too busy to answer costs the task and not the application`(): Unit =
    assertEquals(
      (classOf[SparkException], None),
      endedBy(Future.failed(new IllegalStateException("100,000 events wait"))))

  @Test def `a failure that a serializer wraps costs the task and not the application`(): Unit =
    assertEquals(
      (classOf[SparkException], None),
      endedBy(
        Future.failed(new IllegalStateException("100,000 events wait")),
        new IOException("unexpected exception type", _)))

  @Test def `a task that is killed for it does not report a failed fetch`(): Unit = {
    val ended = endedBy {
      context.markInterrupted("by the driver")
      Future.successful(false)
    }
    assertEquals((classOf[TaskKilledException], None), ended)
  }

  @Test def `outputs that are lost are a failed fetch that names nobody`(): Unit = {
    val lost = classOf[MetadataFetchFailedException]
    assertEquals((lost, Some(lost)), endedBy(Future.successful(true)))
    val failure = context.fetchFailed.get.toTaskFailedReason.asInstanceOf[FetchFailed]
    assertEquals(null, failure.bmAddress)
  }
}
