// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch.remote

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.MetadataFetchFailedException
import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.{OutputsLost, RemoteDriverLink}
import org.apache.spark.shuffle.lodestone.fetch.{FetchPlan, Substitutes, WrongData}
import org.apache.spark.shuffle.lodestone.transport.ServiceLocation

/** Services of which a task found out that they have not, or not any more, what was pushed to them. */
private[remote] final case class LostAt(services: Seq[ServiceLocation], why: Reason)

/**
 * The end of a reduce task that cannot read its map outputs. First the driver is told, which makes Spark
 * forget them; then the task fails, which makes Spark run their maps again. The other way round it would
 * run the reduce task alone, to fail again.
 */
private[remote] final class OutputLoss(
    shuffleId: Int,
    epoch: Int,
    driver: RemoteDriverLink,
    context: TaskContext)
    extends Substitutes
    with WrongData {
  import OutputLoss._

  /** Which service failed the last chunk of a partition. */
  private val failed = new ConcurrentHashMap[Int, LostAt]()

  def fail(reduceId: Int, lost: LostAt): Nothing = {
    // One that was killed has not looked for long enough to have all maps run again.
    context.killTaskIfInterrupted()
    tell(lost)
    val where =
      if (lost.services.isEmpty) "" else s" at ${lost.services.map(_.hostPort).mkString(", ")}"
    // Constructing it marks the task.
    throw new MetadataFetchFailedException(
      shuffleId,
      reduceId,
      s"Map outputs for partition $reduceId cannot be read$where: ${lost.why.sentence}; $remedy.")
  }

  override val remedy: String = "all maps of the shuffle are run again"

  override def tell(reduceId: Int, why: Reason): Unit =
    tell(LostAt(Option(failed.get(reduceId)).fold(NoService)(_.services), why))

  override def chunkFailed(reduceId: Int, service: ServiceLocation, reason: Reason): Unit = {
    failed.put(reduceId, LostAt(Seq(service), reason))
    ()
  }

  /** There is nothing to read in its place. */
  override def apply(reduceId: Int, maps: Int => Boolean): FetchPlan.Blocks =
    fail(
      reduceId,
      Option(failed.get(reduceId)).getOrElse(LostAt(NoService, Reason.ChunkFetchFailed)))

  private def tell(lost: LostAt): Unit = {
    val message = OutputsLost(shuffleId, epoch, lost.services, lost.why.code)
    driver.awaitNoted(driver.lost(message), s"shuffle $shuffleId has lost outputs")
  }
}

private[remote] object OutputLoss {
  private val NoService: Seq[ServiceLocation] = Nil
}
