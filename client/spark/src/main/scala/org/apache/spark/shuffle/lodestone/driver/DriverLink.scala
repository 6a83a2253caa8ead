// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import scala.concurrent.Future
import scala.concurrent.duration.{DurationLong, FiniteDuration}

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcEndpointRef, RpcTimeout}
import org.apache.spark.shuffle.lodestone.{LodestoneConf, Reason}
import org.apache.spark.shuffle.lodestone.transport.SameThread
import org.apache.spark.util.RpcUtils

/** What executors want of the driver. */
private[lodestone] trait DriverLink {

  /** [[MergePlan]] or [[NotMerged]]. */
  def plan(generation: ShuffleGeneration, sample: MapSample): Future[DriverMessage]

  /** [[MergePlan]] or [[NotMerged]]. */
  def result(generation: ShuffleGeneration): Future[DriverMessage]

  def distrust(generation: ShuffleGeneration, reduceId: Int, why: Reason): Future[Boolean]

  /** One-way. */
  def tell(message: DriverMessage): Unit

  /** The longest that the driver may take for any of these. */
  def patience: FiniteDuration
}

/**
 * Over Spark's RPC. The first use looks the endpoint up, which blocks for a moment.
 *
 * @param planned
 *   sees the driver's answer to each [[GetMergePlan]]
 */
private[lodestone] final class RpcDriverLink(
    env: SparkEnv,
    conf: LodestoneConf,
    planned: DriverMessage => Unit)
    extends DriverLink {
  import RpcDriverLink._

  private lazy val driver: RpcEndpointRef =
    RpcUtils.makeDriverRef(DriverEndpoint.Name, env.conf, env.rpcEnv)

  /** To find the services and to register with them; or to wait for maps and to finalize. */
  override val patience: FiniteDuration =
    (conf.finalizeTimeoutMs + RequestsInARow * conf.requestTimeoutMs).millis

  private val timeout = new RpcTimeout(patience, "spark.lodestone.request.timeout")

  override def plan(generation: ShuffleGeneration, sample: MapSample): Future[DriverMessage] = {
    val answer = driver.ask[DriverMessage](GetMergePlan(generation, sample), timeout)
    answer.foreach(planned)(SameThread)
    answer
  }

  override def result(generation: ShuffleGeneration): Future[DriverMessage] =
    driver.ask[DriverMessage](GetMergeResult(generation), timeout)

  override def distrust(
      generation: ShuffleGeneration,
      reduceId: Int,
      why: Reason): Future[Boolean] =
    driver.ask[Boolean](DistrustMerged(generation, reduceId, why.code), timeout)

  override def tell(message: DriverMessage): Unit = driver.send(message)
}

private[lodestone] object RpcDriverLink {

  /** Hello, then RegisterShuffle; one to spare for the driver's own queue. */
  private val RequestsInARow = 3
}
