// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.util.HashMap
import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, RejectedExecutionException}
import java.util.concurrent.{ThreadPoolExecutor, TimeUnit}

import scala.concurrent.{Future, Promise}
import scala.util.{Failure, Success, Try}
import scala.util.control.NonFatal

import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.TransportClient
import org.apache.spark.network.server.NoOpRpcHandler
import org.apache.spark.network.util.{MapConfigProvider, TransportConf}
import org.apache.spark.shuffle.lodestone.{DaemonThreads, HostPort}

/** One connection per service, made when it is first needed and never on a network thread. */
private[transport] final class Connections(requestTimeoutMs: Long) {
  import Connections._

  private val context =
    new TransportContext(transportConf(requestTimeoutMs), new NoOpRpcHandler(), false, true)
  private val factory = context.createClientFactory()
  private val open = new ConcurrentHashMap[HostPort, Future[TransportClient]]()

  /** Connecting blocks: each of these threads waits for one service. */
  private val connectors = newConnectors()

  def get(service: HostPort): Future[TransportClient] = {
    val known = open.get(service)
    if (known != null && isUsable(known)) known else connect(service, known)
  }

  def close(): Unit = {
    connectors.shutdownNow()
    factory.close()
    context.close()
  }

  private def connect(service: HostPort, dead: Future[TransportClient]): Future[TransportClient] = {
    val promise = Promise[TransportClient]()
    val winner = open.compute(
      service,
      (_, now) => {
        if (now != null && (now ne dead) && isUsable(now)) now else promise.future
      })
    if (winner eq promise.future) {
      try {
        connectors.execute(() => promise.complete(dial(service)))
      } catch {
        case _: RejectedExecutionException =>
          promise.failure(new IOException("the client is closed"))
      }
    }
    winner
  }

  private def dial(service: HostPort): Try[TransportClient] =
    try {
      Success(factory.createClient(service.host, service.port))
    } catch {
      case failure: IOException => Failure(failure)
      case _: InterruptedException => Failure(new IOException("the client is closed"))
      // Netty reports some failures (a name that does not resolve) by unchecked exceptions; whatever
      // it is, whoever waits for the connection must be told.
      case NonFatal(other) => Failure(new IOException(s"$service: $other", other))
    }

  private def isUsable(connection: Future[TransportClient]): Boolean = connection.value match {
    case None => true
    case Some(outcome) => outcome.toOption.exists(_.isActive)
  }
}

private[transport] object Connections {

  /** Services that may be dialled at the same moment; more than this wait for each other. */
  private val MaxConnectors = 16

  private val IdleConnectorSeconds = 10L

  /** Enough to fill a network with chunks; a connection sticks to one of them. */
  private val NetworkThreads = 2

  private def newConnectors(): ThreadPoolExecutor = {
    val pool = new ThreadPoolExecutor(
      MaxConnectors,
      MaxConnectors,
      IdleConnectorSeconds,
      TimeUnit.SECONDS,
      new LinkedBlockingQueue[Runnable](),
      DaemonThreads.named("connect"))
    pool.allowCoreThreadTimeOut(true)
    pool
  }

  /**
   * Nothing of the user's network settings: what holds for executors talking to each other is made
   * to wait for minutes. A connection on which requests are outstanding and nothing moves is
   * closed after the request time-out.
   */
  private def transportConf(requestTimeoutMs: Long): TransportConf = {
    val seconds = TimeUnit.MILLISECONDS.toSeconds(requestTimeoutMs + 999)
    val settings = Map(
      "connectionTimeout" -> s"${seconds}s",
      "connectionCreationTimeout" -> s"${seconds}s",
      "clientThreads" -> NetworkThreads.toString,
      "numConnectionsPerPeer" -> "1",
      "maxRetries" -> "0",
      "retryWait" -> "0s",
      "enableTcpKeepAlive" -> "true")
    val keys = new HashMap[String, String]()
    settings.foreach { case (name, value) => keys.put(s"spark.lodestone.io.$name", value) }
    new TransportConf("lodestone", new MapConfigProvider(keys))
  }
}
