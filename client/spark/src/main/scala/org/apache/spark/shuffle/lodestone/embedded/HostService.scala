// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.embedded

import java.util.concurrent.atomic.AtomicReference

import scala.concurrent.Await
import scala.concurrent.duration.Duration
import scala.util.{Failure, Success}
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.shuffle.lodestone.{HostPort, LodestoneConf, ServiceSource}
import org.apache.spark.shuffle.lodestone.driver.{DriverEndpoint, DriverMessage}
import org.apache.spark.shuffle.lodestone.driver.{ServiceFound, ServiceMissing}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.util.RpcUtils

/** Tells the driver which service serves this executor's host, in embedded mode. */
private[spark] object HostService {
  private val log = LoggerFactory.getLogger("org.apache.spark.shuffle.lodestone.embedded")

  /** The executor that has announced last: a local driver may have several lives in one JVM. */
  private val announced = new AtomicReference[String]("")

  /** Once per executor, on a thread of its own; every later call does nothing. */
  def announce(conf: SparkConf): Unit = {
    val env = SparkEnv.get
    val executor = s"${conf.get("spark.app.id", "")}/${env.executorId}"
    if (announced.getAndSet(executor) != executor) {
      val settings = LodestoneConf(conf)
      if (settings.services == ServiceSource.Embedded) {
        val thread = new Thread("lodestone-announce") {
          override def run(): Unit =
            try {
              tellDriver(conf, settings, env)
            } catch {
              // Uncaught, it would end the executor (SparkUncaughtExceptionHandler). The driver
              // waits for this host a bounded time.
              case NonFatal(failure) => log.warn("The driver was not told of this host", failure)
            }
        }
        thread.setDaemon(true)
        thread.start()
      }
    }
  }

  /** The connection is given up again: the driver's own keeps the daemon from being idle. */
  private def tellDriver(conf: SparkConf, settings: LodestoneConf, env: SparkEnv): Unit = {
    val host = env.blockManager.blockManagerId.host
    val client = ServiceClient(conf)
    try {
      val daemon = new HostDaemon(
        settings,
        LocalRoots(conf, sys.env),
        HostDaemon.safe(System.getProperty("user.name")),
        host,
        incarnationAt(client))
      val message = announcement(env.executorId, host, daemon)
      RpcUtils.makeDriverRef(DriverEndpoint.Name, conf, env.rpcEnv).send(message)
    } finally {
      client.close()
    }
  }

  private def announcement(executorId: String, host: String, daemon: HostDaemon): DriverMessage =
    try {
      ServiceFound(executorId, host, daemon.findOrStart().toString)
    } catch {
      // Whatever it was, the driver's plan must not wait for this host.
      case NonFatal(failure) =>
        log.warn(s"No shuffle service on $host", failure)
        ServiceMissing(executorId, host, String.valueOf(failure.getMessage))
    }

  /** Every request of the client ends within its own time-out. */
  private[embedded] def incarnationAt(client: ServiceClient)(
      address: HostPort): Either[String, Long] =
    Await.ready(client.hello(address), Duration.Inf).value match {
      case Some(Success(reply)) => Right(reply.incarnation)
      case Some(Failure(failure)) => Left(failure.getMessage)
      case None => Left("no answer")
    }
}
