// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.{BarrierTaskContext, SparkException, TaskContext, TaskKilledException}
import org.apache.spark.shuffle.MetadataFetchFailedException
import org.apache.spark.shuffle.lodestone.executor.fetch.{FetchPlan, Substitutes, WrongData}
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{DamagedSegment, MissingBlock, OutputsLost, Reason}
import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.transport.DamagedChunkException

/**
 * Services of which a task found out that they have not, or not any more, what was pushed to them.
 * `missing`: a block that they do not show, though they answer; `damaged`: what came with other bytes.
 */
private[remote] final case class LostAt(
    services: Seq[ServiceLocation],
    why: Reason,
    missing: Option[MissingBlock] = None,
    damaged: Option[DamagedSegment] = None)

/**
 * The end of a reduce task that cannot read its map outputs. First the driver is told. If it finds that
 * they are lost it makes Spark forget them, and then the task fails, which makes Spark run their maps
 * again; the other way round it would run the reduce task alone, to fail again. If it finds that they are
 * there this executor is in trouble, and the task is run again by itself. That must not count as a failure
 * of the task: Spark may well give it to the same executor again, and ends the job after a few failures. So
 * the driver has Spark kill the attempt: who reads the rows may wrap what is thrown here, as those do who
 * save files, and a wrapped exception counts unless the task was killed.
 */
private[remote] final class OutputLoss(
    shuffleId: Int,
    epoch: Int,
    driver: DriverLink,
    executorId: String,
    context: TaskContext)
    extends Substitutes
    with WrongData {
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
        s"(${lost.why.code})")
  }

  private def fail(reduceId: Int, lost: LostAt, what: String): Nothing = {
    // One that was killed has not looked for long enough to have all maps run again.
    context.killTaskIfInterrupted()
    tell(reduceId, lost) match {
      // Constructing it marks the task.
      case Some(true) =>
        throw new MetadataFetchFailedException(
          shuffleId,
          reduceId,
          s"$what; all maps of the shuffle are run again.")
      case Some(false) =>
        awaitKill()
        throw new TaskKilledException(
          s"$what. As far as the driver can tell they are there: executor $executorId seems to " +
            "be in trouble, and the task is run again.")
      case None =>
        throw new SparkException(s"$what, and the driver did not say whether they are lost.")
    }
  }

  /** For a while: the driver may have gone meanwhile. Spark has no event for it. */
  private def awaitKill(): Unit = {
    val endNs = System.nanoTime() + LongestKillNs
    while (System.nanoTime() < endNs) {
      context.killTaskIfInterrupted()
      Thread.sleep(LookMs)
    }
  }

  override val hasOther: Boolean = false

  override def end(reduceId: Int, why: Reason, what: String): Nothing =
    fail(reduceId, LostAt(NoService, why), what)

  override def chunkFailed(
      reduceId: Int,
      service: ServiceLocation,
      reason: Reason,
      cause: Throwable): Unit = {
    val damaged = cause match {
      case damage: DamagedChunkException => Some(damage.segment)
      case _ => None
    }
    failed.put(reduceId, LostAt(Seq(service), reason, damaged = damaged))
    ()
  }

  /**
   * There is nothing to read in its place. Where no chunk failed, one came whole, and Spark could not open
   * it: with some codecs it reads the first bytes there and then.
   */
  override def apply(reduceId: Int, maps: Int => Boolean): FetchPlan.Blocks =
    fail(
      reduceId,
      Option(failed.get(reduceId)).getOrElse(LostAt(NoService, Reason.ChunkBroken)))

  private def tell(reduceId: Int, lost: LostAt): Option[Boolean] = {
    val message =
      OutputsLost(
        shuffleId,
        epoch,
        lost.services,
        lost.why.code,
        executorId,
        context.taskAttemptId(),
        reduceId,
        lost.missing,
        lost.damaged,
        context.isInstanceOf[BarrierTaskContext])
    driver.awaitAnswer(driver.lost(message), s"shuffle $shuffleId has lost outputs")
  }
}

private[remote] object OutputLoss {
  private val NoService: Seq[ServiceLocation] = Nil

  /** Until the driver's kill arrives, which is a message to this executor. */
  private val LongestKillNs = TimeUnit.SECONDS.toNanos(5)
  private val LookMs = 20L
}
