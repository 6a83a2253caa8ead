// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.util.HashMap
import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, RejectedExecutionException}
import java.util.concurrent.{ThreadPoolExecutor, TimeUnit}

import scala.concurrent.{Future, Promise}
import scala.util.{Failure, Success, Try}
import scala.util.control.NonFatal

import io.netty.handler.ssl.SslHandler
import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{TransportClient, TransportClientFactory}
import org.apache.spark.network.server.NoOpRpcHandler
import org.apache.spark.network.util.{MapConfigProvider, TransportConf}
import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, HostPort}

/** One connection per service, opened at its first use, and never on a network thread. */
private[transport] final class Connections(
    requestTimeoutMs: Long,
    longestRequestMs: Long,
    protection: Protection) {
  import Connections._

  private var made = Option.empty[(TransportContext, TransportClientFactory)]
  private var isClosed = false

  /** Held while these are made, which may wait for the disk of a key store. */
  private val making = new Object
  private val open = new ConcurrentHashMap[HostPort, Future[TransportClient]]()

  /** To connect blocks a thread, so each of these threads waits for one service. */
  private val connectors = newConnectors()

  def get(service: HostPort): Future[TransportClient] = {
    val known = open.get(service)
    if (known != null && isUsable(known)) known else connect(service, known)
  }

  /** Closes the connection. Requests under way fail, and the next one gets a new connection. */
  def drop(service: HostPort): Unit =
    Option(open.get(service)).flatMap(_.value).flatMap(_.toOption).foreach(retire)

  def close(): Unit = {
    connectors.shutdownNow()
    val old = synchronized {
      isClosed = true
      made
    }
    old.foreach { case (context, factory) =>
      factory.close()
      context.close()
    }
  }

  /**
   * Made for the first connection: what Spark's settings for TLS lack must fail connections, and
   * not the shuffle that is registered.
   */
  private def factory(): TransportClientFactory =
    known().getOrElse(making.synchronized(known().getOrElse(make())))

  private def known(): Option[TransportClientFactory] = synchronized {
    if (isClosed) throw new IOException("the client is closed")
    made.map { case (_, factory) => factory }
  }

  private def make(): TransportClientFactory = {
    val conf = transportConf(requestTimeoutMs, longestRequestMs, protection)
    val context = new TransportContext(conf, new NoOpRpcHandler(), false, true)
    var isKept = false
    try {
      val factory = context.createClientFactory(protection.bootstraps(conf))
      synchronized {
        isKept = !isClosed
        if (isKept) made = Some((context, factory)) else factory.close()
      }
      if (!isKept) throw new IOException("the client is closed")
      factory
    } finally {
      if (!isKept) context.close()
    }
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
        connectors.execute(() => complete(promise, service))
      } catch {
        case _: RejectedExecutionException =>
          promise.failure(new IOException("the client is closed"))
      }
    }
    winner
  }

  /**
   * An error of the JVM, such as for a lack of memory, ends the thread. The requests that wait for
   * the connection fail, and the next one dials again.
   */
  private def complete(promise: Promise[TransportClient], service: HostPort): Unit =
    try {
      promise.complete(dial(service))
      ()
    } finally {
      promise.tryFailure(new IOException(s"$service: an error prevented the connection"))
      ()
    }

  private def dial(service: HostPort): Try[TransportClient] =
    try {
      opened(factory().createClient(service.host, service.port))
    } catch {
      case failure: IOException => Failure(failure)
      case _: InterruptedException => Failure(new IOException("the client is closed"))
      // Netty reports some failures (a name that does not resolve) by unchecked exceptions, and so
      // does Spark a service that denies this application, or does not prove that it knows the
      // secret, and settings for TLS that it cannot use, or whose classes are missing. The callers
      // that wait for the connection must get each of them.
      case other @ (NonFatal(_) | _: LinkageError) =>
        Failure(new IOException(s"$service: ${causes(other)}", other))
    }

  /** Spark returns a connection whose TLS has failed, and logs why at INFO. */
  private def opened(client: TransportClient): Try[TransportClient] = {
    val tls = Option(client.getChannel.pipeline.get(classOf[SslHandler]))
    tls.flatMap(handler => Option(handler.handshakeFuture.cause)) match {
      case None => Success(client)
      case Some(cause) =>
        client.close()
        Failure(new IOException(s"no TLS: ${causes(cause)}", cause))
    }
  }

  private def isUsable(connection: Future[TransportClient]): Boolean = connection.value match {
    case None => true
    case Some(outcome) => outcome.toOption.exists(_.isActive)
  }
}

private[transport] object Connections {

  /**
   * Connections that are opened at the same time. Further ones wait. A service that stands still
   * holds one of them for the times of a connection and of a handshake.
   */
  private val MaxConnectors = 64

  private val IdleConnectorSeconds = 10L

  /** A host that does not answer must end in the time-out of a request, which comes first. */
  private val DialGraceMs = 1000L

  private val MaxCauses = 5

  /** Two threads can fill a network with chunks. A connection stays on one of them. */
  private val NetworkThreads = 2

  /**
   * Closes a connection on which a request failed, so that no request uses it again. (Spark fails
   * the requests of a broken connection a moment before it closes it.)
   */
  def retire(connection: TransportClient): Unit = {
    connection.timeOut()
    connection.getChannel.close()
  }

  /** The failure, and what it wraps: Spark and reflection say little of their own. */
  private def causes(failure: Throwable): String =
    Iterator.iterate(failure)(_.getCause).takeWhile(_ != null).take(MaxCauses).mkString(": ")

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
   * Uses none of the user's network settings, because those are for executors and wait for minutes,
   * except those for the handshake and the cipher.
   * [[Deadlines]] end requests. Spark's own limit for a silent connection comes after them, because
   * it does not know how large a request is.
   */
  private def transportConf(
      requestTimeoutMs: Long,
      longestRequestMs: Long,
      protection: Protection): TransportConf = {
    val settings = Map(
      "connectionTimeout" -> seconds(longestRequestMs),
      "connectionCreationTimeout" -> seconds(requestTimeoutMs + DialGraceMs),
      "clientThreads" -> NetworkThreads.toString,
      "numConnectionsPerPeer" -> "1",
      "maxRetries" -> "0",
      "retryWait" -> "0s",
      "enableTcpKeepAlive" -> "true")
    val keys = new HashMap[String, String]()
    settings.foreach { case (name, value) => keys.put(s"spark.lodestone.io.$name", value) }
    protection.settings.foreach { case (key, value) => keys.put(key, value) }
    keys.put("spark.network.auth.rpcTimeout", seconds(requestTimeoutMs))
    new TransportConf("lodestone", new MapConfigProvider(keys))
  }

  private def seconds(ms: Long): String = s"${TimeUnit.MILLISECONDS.toSeconds(ms + 999)}s"
}
