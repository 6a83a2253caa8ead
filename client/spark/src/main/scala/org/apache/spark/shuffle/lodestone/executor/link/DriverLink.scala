// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.concurrent.{Await, Future, TimeoutException}
import scala.concurrent.duration.{DurationLong, FiniteDuration}
import scala.reflect.ClassTag
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcEndpointRef, RpcTimeout}
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport.SameThread
import org.apache.spark.util.RpcUtils

/** The questions and reports of executors to the driver. */
private[lodestone] trait DriverLink extends Logged {

  /** Asks the driver. A question that cannot be sent is a failed future, too. */
  def ask[A: ClassTag](question: Question[A]): Future[A]

  def send(message: DriverMessage): Unit

  /** Sends a report one-way. A report may be lost, and no task fails because of it. */
  final def report(message: DriverMessage): Unit =
    try {
      send(message)
    } catch {
      // Spark's RPC throws if it is stopped or the driver is gone, without an exception type for
      // it. No row is lost or doubled. Without a TaskRead or a MapEncoded the report lacks
      // numbers. Without a MapPushed the first reader waits for `push.timeout`. Without a
      // MapCounted a reader takes the originals of the map unchecked, and counts them. Without a
      // ServiceFound the driver waits for this host for a limited time.
      case NonFatal(failure) => log.warn("A report to the driver was not sent", failure)
    }

  /**
   * Waits for the driver's answer. None if the driver did not answer.
   *
   * @param what
   *   "the question …" or "the report …"
   */
  final def awaitAnswer[T](
      asked: Future[T],
      what: String,
      atMost: FiniteDuration = answerTimeout): Option[T] =
    try {
      Some(Await.result(asked, atMost))
    } catch {
      case _: TimeoutException =>
        log.warn(s"The driver did not answer in time: $what")
        None
      // Spark's RPC throws, as above. Without a plan blocks are not pushed, and readers take the
      // originals. Without the driver's record a stage may fail once more, and the caller is about
      // to throw its own exception. This one in its place could end the application, or give a
      // wrong answer. An interrupt is not caught: the task was killed.
      case NonFatal(failure) =>
        log.warn(s"The driver did not answer: $what", failure)
        None
    }

  /** The longest time that the driver may take for an answer. */
  def answerTimeout: FiniteDuration
}

/**
 * Sends messages over Spark's RPC. The first use looks the endpoint up, which blocks for a moment.
 *
 * @param planned
 *   gets the driver's answer to each [[GetPlan]]
 */
private[lodestone] final class RpcDriverLink(
    env: SparkEnv,
    conf: LodestoneConf,
    planned: PlanAnswer => Unit)
    extends DriverLink {
  import RpcDriverLink._

  private lazy val driver: RpcEndpointRef =
    RpcUtils.makeDriverRef(DriverMessage.Endpoint, env.conf, env.rpcEnv)

  /** The driver finds services and registers with them, or waits for pushes. */
  override val answerTimeout: FiniteDuration =
    (conf.pushTimeoutMs + RequestsInARow * conf.requestTimeoutMs).millis

  private val answers = new OwnClasses(env.conf)

  private val timeout = new RpcTimeout(answerTimeout, "spark.lodestone.request.timeout")

  override def ask[A: ClassTag](question: Question[A]): Future[A] = {
    val asked = Future.fromTry(Try(driver.ask[Any](question, timeout))).flatten
    val answer = asked.map(answers.read)(SameThread).mapTo[A]
    if (question.isInstanceOf[GetPlan]) answer.mapTo[PlanAnswer].foreach(planned)(SameThread)
    answer
  }

  override def send(message: DriverMessage): Unit = driver.send(message)
}

private[lodestone] object RpcDriverLink {

  /** Hello and RegisterShuffle, and one to spare for the driver's own queue. */
  private val RequestsInARow = 3
}
