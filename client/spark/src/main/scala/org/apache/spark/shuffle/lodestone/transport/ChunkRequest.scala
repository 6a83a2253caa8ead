// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.TransportClient
import org.apache.spark.shuffle.lodestone.config.{HostPort, Logged}
import org.apache.spark.shuffle.lodestone.wire.OpenStream

/**
 * Fetches chunks until each has arrived whole or has failed for good. Chunks whose failure is worth
 * a retry are requested together, once more, after the others have arrived.
 *
 * @param open
 *   opens a stream over some of the chunks. The connection that opened it must fetch from it.
 * @param room
 *   the room at the service for all requests of this JVM
 */
private[transport] final class ChunkRequest(
    service: HostPort,
    chunks: Array[SizedChunk],
    open: Array[SizedChunk] => Future[(TransportClient, OpenStream)],
    deadlines: Deadlines,
    retryOnce: RetryOnce,
    room: Turnstile,
    receiver: ChunkReceiver) extends Logged {
  import ChunkRequest._

  def start(): Unit =
    if (chunks.nonEmpty) new Round(chunks.indices.toArray, RetryOnce.MaxRetries).start()

  /** Some of the chunks, in one stream. Network threads and the timer's thread call it. */
  private final class Round(indices: Array[Int], retriesLeft: Int) extends ChunkStream.Receiver {
    private val again = mutable.ArrayBuffer.empty[Int]
    private var pauseMs = 0L
    private val left = new AtomicInteger(indices.length)

    @volatile private var opener: TransportClient = _
    private val wanted = indices.map(chunks(_))
    private val size = math.max(LeastSize, wanted.iterator.map(_.entries).sum)

    def start(): Unit = room.enter(size) { () =>
      open(wanted).onComplete {
        case opened @ Success((client, stream)) =>
          retryOnce.settled(service, opened)
          opener = client
          new ChunkStream(service, client, wanted.map(_.sizeBytes), deadlines, this)
            .fetch(stream.streamId)
        case Failure(failure) => indices.indices.foreach(failed(_, failure))
      }(SameThread)
    }

    override def received(at: Int, data: ManagedBuffer): Unit = {
      var outcome: Option[Option[DamagedChunkException]] = None
      try {
        outcome = Some(receiver.received(indices(at), data))
      } finally {
        if (outcome.isEmpty) notTaken(at)
      }
      outcome.foreach {
        case None => settled()
        case Some(damage) =>
          log.warn(s"$service sent a damaged chunk: ${damage.getMessage}")
          failed(at, damage)
      }
    }

    /**
     * Handles an exception of the receiver, as for lack of memory. Spark then fails all requests on
     * this connection, so it is closed first, and the chunk is requested on another one.
     */
    private def notTaken(at: Int): Unit = {
      Connections.retire(opener)
      failed(at, new IOException(s"the reader could not take a chunk of $service"))
    }

    override def failed(at: Int, cause: Throwable): Unit = {
      val index = indices(at)
      retryOnce.pauseMs(service, FailureClass.of(cause), retriesLeft) match {
        case Some(ms) =>
          synchronized {
            again += index
            pauseMs = math.max(pauseMs, ms)
          }
        case None =>
          retryOnce.settled(service, Failure(cause))
          receiver.failed(index, cause)
      }
      settled()
    }

    private def settled(): Unit = if (left.decrementAndGet() == 0) {
      room.left(size)
      if (again.nonEmpty) {
        RequestTimer.after(pauseMs)(new Round(again.toArray, retriesLeft - 1).start())
        ()
      }
    }
  }
}

private[transport] object ChunkRequest {

  /**
   * The limit of entries in all streams to one service: half of the service's limit for one
   * connection. Above its limit the service refuses streams, and their readers would ask again.
   */
  val Room: Int = 128 * 1024

  /** The least that a stream counts: it makes 2048 streams the limit, half of the service's. */
  private val LeastSize = Room / 2048
}
