// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.concurrent.{Await, Future, TimeoutException}
import scala.concurrent.duration.{DurationLong, FiniteDuration}
import scala.reflect.ClassTag
import scala.util.Failure
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcEndpointRef, RpcTimeout}
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, DistrustMerged, DriverMessage}
import org.apache.spark.shuffle.lodestone.plan.{GetCounts, GetReadPlan, GetPlan, OutputsLost}
import org.apache.spark.shuffle.lodestone.plan.{PlanAnswer, Reason, ShuffleGeneration, TwoCopies}
import org.apache.spark.shuffle.lodestone.transport.SameThread
import org.apache.spark.util.RpcUtils

/** What executors want of the driver. */
private[lodestone] trait DriverLink {

  /** For map tasks. */
  def plan(asked: GetPlan): Future[PlanAnswer]

  /** For reduce tasks. */
  def readPlan(asked: GetReadPlan): Future[PlanAnswer]

  /** True when Spark has forgotten the outputs, false when they are there. */
  def lost(outputs: OutputsLost): Future[Boolean]

  def distrust(generation: ShuffleGeneration, reduceId: Int, why: Reason): Future[Boolean]

  def counts(asked: GetCounts): Future[CountedMaps]

  /** One-way. */
  def send(message: DriverMessage): Unit

  /** One-way. A report may be lost, and no task fails for it. */
  final def report(message: DriverMessage): Unit =
    try {
      send(message)
    } catch {
      // Spark's RPC throws if it is stopped or the driver is gone, without an exception type for it.
      // No row is lost or doubled. Without a TaskRead the report lacks numbers. Without a MapPushed
      // the first reader waits for `push.timeout`. Without a MapCounted a reader takes the originals
      // of the map unchecked, and counts them.
      case NonFatal(failure) => DriverLink.log.warn("A task's report was not sent", failure)
    }

  /** Waits for what the driver says to something, as far as it goes. None: it did not say anything. */
  final def awaitAnswer[T](
      asked: => Future[T],
      what: String,
      atMost: FiniteDuration = answerTimeout): Option[T] =
    try {
      Some(Await.result(asked, atMost))
    } catch {
      case _: TimeoutException =>
        DriverLink.log.warn(s"The driver did not answer in time: $what")
        None
      // Spark's RPC throws, as above. Without the note a stage may fail once more. The caller is
      // about to throw its own exception. This one in its place could end the application, or give
      // a wrong answer.
      case NonFatal(failure) =>
        DriverLink.log.warn(s"The driver did not answer: $what", failure)
        None
    }

  /** The longest that the driver may take for any of these. */
  def answerTimeout: FiniteDuration
}

private[lodestone] object DriverLink {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[DriverLink])
}

/**
 * Over Spark's RPC. The first use looks the endpoint up, which blocks for a moment.
 *
 * @param planned
 *   sees the driver's answer to each [[GetPlan]]
 */
private[lodestone] final class RpcDriverLink(
    env: SparkEnv,
    conf: LodestoneConf,
    planned: PlanAnswer => Unit)
    extends DriverLink {
  import RpcDriverLink._

  private lazy val driver: RpcEndpointRef =
    RpcUtils.makeDriverRef(DriverMessage.Endpoint, env.conf, env.rpcEnv)

  /** To find the services and to register with them; or to wait for pushes. */
  override val answerTimeout: FiniteDuration =
    (conf.pushTimeoutMs + RequestsInARow * conf.requestTimeoutMs).millis

  private val timeout = new RpcTimeout(answerTimeout, "spark.lodestone.request.timeout")

  override def plan(asked: GetPlan): Future[PlanAnswer] = {
    val answer = ask[PlanAnswer](asked)
    answer.foreach(planned)(SameThread)
    answer
  }

  override def readPlan(asked: GetReadPlan): Future[PlanAnswer] = ask[PlanAnswer](asked)

  override def lost(outputs: OutputsLost): Future[Boolean] =
    ask[Boolean](outputs)

  override def distrust(
      generation: ShuffleGeneration,
      reduceId: Int,
      why: Reason): Future[Boolean] =
    ask[Boolean](DistrustMerged(generation, reduceId, why.code))

  override def counts(asked: GetCounts): Future[CountedMaps] =
    ask[CountedMaps](asked)

  override def send(message: DriverMessage): Unit = driver.send(message)

  private def ask[M: ClassTag](message: DriverMessage): Future[M] =
    driver
      .ask[M](message, timeout)
      .transform {
        case Failure(cast: ClassCastException) =>
          val copies = TwoCopies.ofMessages(classOf[DriverMessage])
          Failure(copies.fold[Throwable](cast)(new IllegalStateException(_, cast)))
        case answer => answer
      }(SameThread)
}

private[lodestone] object RpcDriverLink {

  /** Hello, then RegisterShuffle; one to spare for the driver's own queue. */
  private val RequestsInARow = 3
}
