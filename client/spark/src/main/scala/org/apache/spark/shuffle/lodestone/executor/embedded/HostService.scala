// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import scala.concurrent.Await
import scala.concurrent.duration.Duration
import scala.util.{Failure, Success}
import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, HostPort, LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * Announces the service of this executor's host to the driver, in embedded mode: when the executor
 * has its first task, and when a plan of the driver has no service here.
 */
private[spark] final class HostService(
    conf: SparkConf,
    settings: LodestoneConf,
    driver: DriverLink,
    env: SparkEnv) extends Logged {
  import HostService._

  private val host = env.blockManager.blockManagerId.host
  private val busy = new AtomicBoolean()

  /**
   * The time since which no service can be found or started. Only the thread that set `busy` uses
   * it.
   */
  private var missingSinceNs: Option[Long] = None

  /**
   * Announces the service on a thread of its own, unless another thread does so, or found nothing a
   * short time ago.
   */
  def announce(): Unit =
    if (busy.compareAndSet(false, true)) {
      if (missingSinceNs.exists(System.nanoTime() - _ < PauseNs)) {
        busy.set(false)
      } else {
        DaemonThreads.start("announce")(sendAnnouncement())
      }
    }

  /**
   * Announces the service again if the plan lacks this host: its daemon has ended, or was never
   * known.
   */
  def planned(answer: PlanAnswer): Unit = answer match {
    case plan: ShufflePlan if plan.services.exists(_.host == host) => ()
    case _ => announce()
  }

  private def sendAnnouncement(): Unit =
    try {
      val message = announcement()
      missingSinceNs = Some(message).collect { case _: ServiceMissing => System.nanoTime() }
      driver.report(message)
    } finally {
      busy.set(false)
    }

  /** Closes its connection: the driver's own connection prevents the daemon's idle exit. */
  private def announcement(): DriverMessage =
    try {
      val client = ServiceClient(conf, settings)
      try ServiceFound(env.executorId, host, findOrStart(client))
      finally client.close()
    } catch {
      // The driver's plan must not wait for this host, for any failure. An uncaught exception would
      // end the executor.
      case NonFatal(failure) =>
        log.warn(s"No shuffle service on $host", failure)
        ServiceMissing(env.executorId, host, String.valueOf(failure.getMessage))
    }

  private def secret: Option[AppSecret] = {
    val security = env.securityManager
    if (security.isAuthenticationEnabled()) {
      Some(new AppSecret(conf.getAppId, security.getSecretKey()))
    } else {
      None
    }
  }

  private def findOrStart(client: ServiceClient): HostPort = {
    val user = HostDaemon.safe(System.getProperty("user.name"))
    val roots = LocalRoots(conf, sys.env)
    val certificate = PemCertificate.of(conf)
    val inContainer = LocalRoots.areOfContainer(sys.env)
    new HostDaemon(
      settings,
      roots,
      user,
      host,
      incarnationAt(client),
      secret,
      certificate,
      inContainer)
      .findOrStart()
  }
}

private[spark] object HostService {

  /** If a daemon cannot start now (no space, noexec), it hardly can a moment later. */
  private val PauseNs = TimeUnit.SECONDS.toNanos(60)

  /** Waits for the answer. Every request of the client ends within its own time-out. */
  private[embedded] def incarnationAt(client: ServiceClient)(
      address: HostPort): Either[String, Long] =
    Await.ready(client.hello(address), Duration.Inf).value match {
      case Some(Success(reply)) => Right(reply.incarnation)
      case Some(Failure(failure)) => Left(failure.getMessage)
      case None => Left("no answer")
    }
}
