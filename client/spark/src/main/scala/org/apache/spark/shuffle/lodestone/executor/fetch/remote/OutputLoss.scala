// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.{BarrierTaskContext, SparkException, TaskContext, TaskKilledException}
import org.apache.spark.network.client.ChunkFetchFailureException
import org.apache.spark.shuffle.MetadataFetchFailedException
import org.apache.spark.shuffle.lodestone.executor.fetch.{Fallback, FetchChunk, ReadSources}
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{DamagedSegment, LostAt, OutputsLost, Reason}
import org.apache.spark.shuffle.lodestone.plan.UnreadChunk
import org.apache.spark.shuffle.lodestone.transport.DamagedChunkException
import org.apache.spark.shuffle.lodestone.wire.RefusedException

/**
 * The end of a reduce task that cannot read its map outputs. First the task asks the driver. If the
 * outputs are lost, the driver makes Spark forget them, and then the task fails, so that Spark runs
 * the maps again. In the other order Spark would run the reduce task alone, to fail again. If the
 * outputs are there, this executor is in trouble, and only the task runs again. That must not count
 * as a failure of the task: Spark may give it to the same executor again, and ends the job after a
 * few failures. So the driver has Spark kill the attempt. The code that reads the rows may wrap
 * what is thrown here, as writers of files do, and a wrapped exception counts unless the task was
 * killed.
 */
private[remote] final class OutputLoss(
    shuffleId: Int,
    generation: Int,
    driver: DriverLink,
    executorId: String,
    context: TaskContext)
    extends Fallback {
  import OutputLoss._

  /** Which service failed the last chunk of a partition. */
  private val failed = new ConcurrentHashMap[Int, LostAt]()

  def fail(reduceId: Int, lost: LostAt): Nothing = {
    val where =
      if (lost.services.isEmpty) "" else s" at ${lost.services.map(_.hostPort).mkString(", ")}"
    fail(
      reduceId,
      lost,
      s"Executor $executorId cannot read map outputs for partition $reduceId$where " +
        s"(${lost.reason})")
  }

  private def fail(reduceId: Int, lost: LostAt, what: String): Nothing = {
    // A killed task has not searched for long enough to have all maps run again.
    context.killTaskIfInterrupted()
    val task = context.taskAttemptId()
    val isBarrier = context.isInstanceOf[BarrierTaskContext]
    val report = OutputsLost(shuffleId, generation, lost, executorId, task, reduceId, isBarrier)
    val reported = s"the report that shuffle $shuffleId has lost outputs"
    driver.awaitAnswer(driver.ask(report), reported) match {
      // Constructing it marks the task.
      case Some(true) =>
        throw new MetadataFetchFailedException(
          shuffleId,
          reduceId,
          s"$what; all maps of the shuffle are run again.")
      case Some(false) =>
        awaitKill()
        throw new TaskKilledException(
          s"$what. As far as the driver knows they are there: executor $executorId seems to be " +
            "in trouble, and the task is run again.")
      case None =>
        throw new SparkException(s"$what, and the driver did not say whether they are lost.")
    }
  }

  /** Waits for a limited time, since the driver may be gone. Spark has no event for a kill. */
  private def awaitKill(): Unit = {
    val endNs = System.nanoTime() + LongestKillNs
    while (System.nanoTime() < endNs) {
      context.killTaskIfInterrupted()
      Thread.sleep(LookMs)
    }
  }

  override val hasOther: Boolean = false

  override def end(reduceId: Int, reason: Reason, what: String): Nothing =
    fail(reduceId, LostAt(Nil, reason), what)

  override def chunkFailed(
      reduceId: Int,
      chunk: FetchChunk,
      reason: Reason,
      cause: Throwable): Unit = {
    val lost = LostAt(Seq(chunk.service), reason)
    failed.put(
      reduceId,
      cause match {
        case damage: DamagedChunkException => lost.copy(damaged = Some(damage.segment))
        case _: RefusedException | _: ChunkFetchFailureException =>
          val segment = DamagedSegment.of(chunk.reduceId, chunk.segments.head)
          val unread = UnreadChunk(chunk.wanted.wanted, chunk.sizeBytes)
          lost.copy(damaged = Some(segment), unread = Some(unread))
        case _ => lost
      })
    ()
  }

  /**
   * There is nothing to read instead. If no chunk failed, one came whole, and Spark could not open
   * it: with some codecs it reads the first bytes at once.
   */
  override def apply(reduceId: Int, maps: Int => Boolean): ReadSources.BlocksByAddress =
    fail(
      reduceId,
      Option(failed.get(reduceId)).getOrElse(LostAt(Nil, Reason.ChunkBroken)))
}

private[remote] object OutputLoss {

  /** Until the driver's kill arrives, which is a message to this executor. */
  private val LongestKillNs = TimeUnit.SECONDS.toNanos(5)
  private val LookMs = 20L
}
