// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import scala.concurrent.Await
import scala.concurrent.duration.Duration
import scala.util.{Failure, Success}
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, HostPort, LodestoneConf}
import org.apache.spark.shuffle.lodestone.plan.{DriverMessage, PlanAnswer, ServiceFound}
import org.apache.spark.shuffle.lodestone.plan.{ServiceMissing, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.util.RpcUtils

/**
 * Tells the driver which service serves this executor's host, in embedded mode: when the executor
 * has its first task, and whenever the driver turns out to know of none here.
 */
private[spark] final class HostService(conf: SparkConf, env: SparkEnv) {
  import HostService._

  private val settings = LodestoneConf.onExecutor(conf)
  private val host = env.blockManager.blockManagerId.host
  private val busy = new AtomicBoolean()

  /** None could be had; read and written by whoever is busy. */
  private var missingSinceNs: Option[Long] = None

  /** On a thread of its own. While one is at work, or shortly after it found nothing, not again. */
  def announce(): Unit =
    if (busy.compareAndSet(false, true)) {
      if (missingSinceNs.exists(System.nanoTime() - _ < PauseNs)) {
        busy.set(false)
      } else {
        DaemonThreads.start("announce")(sendAnnouncement())
      }
    }

  /** A plan without this host: its daemon has died, or never was. */
  def planned(answer: PlanAnswer): Unit = answer match {
    case plan: ShufflePlan if plan.services.exists(_.host == host) => ()
    case _ => announce()
  }

  private def sendAnnouncement(): Unit =
    try {
      val message = announcement()
      missingSinceNs = Some(message).collect { case _: ServiceMissing => System.nanoTime() }
      RpcUtils.makeDriverRef(DriverMessage.Endpoint, conf, env.rpcEnv).send(message)
    } catch {
      // Uncaught, it would end the executor. The driver waits for this host a bounded time.
      case NonFatal(failure) => log.warn("The driver was not told of this host", failure)
    } finally {
      busy.set(false)
    }

  /** The connection is given up again: the driver's own keeps the daemon from being idle. */
  private def announcement(): DriverMessage = {
    val client = ServiceClient(conf, settings)
    try {
      val user = HostDaemon.safe(System.getProperty("user.name"))
      val roots = LocalRoots(conf, sys.env)
      val daemon = new HostDaemon(settings, roots, user, host, incarnationAt(client))
      ServiceFound(env.executorId, host, daemon.findOrStart().toString)
    } catch {
      // Whatever it was, the driver's plan must not wait for this host.
      case NonFatal(failure) =>
        log.warn(s"No shuffle service on $host", failure)
        ServiceMissing(env.executorId, host, String.valueOf(failure.getMessage))
    } finally {
      client.close()
    }
  }
}

private[spark] object HostService {
  private val log = LoggerFactory.getLogger("org.apache.spark.shuffle.lodestone.embedded")

  /** Where a daemon cannot be started now (no space, noexec), it hardly can a moment later. */
  private val PauseNs = TimeUnit.SECONDS.toNanos(60)

  /** Every request of the client ends within its own time-out. */
  private[embedded] def incarnationAt(client: ServiceClient)(
      address: HostPort): Either[String, Long] =
    Await.ready(client.hello(address), Duration.Inf).value match {
      case Some(Success(reply)) => Right(reply.incarnation)
      case Some(Failure(failure)) => Left(failure.getMessage)
      case None => Left("no answer")
    }
}
