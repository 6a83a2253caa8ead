// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.slf4j.LoggerFactory

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.TransportClient
import org.apache.spark.shuffle.lodestone.HostPort
import org.apache.spark.shuffle.lodestone.wire.OpenStream

/**
 * Fetches chunks until each has arrived whole or has failed for good: those that failed in a way
 * that a repetition can help are asked for together, once more, when the others are there.
 *
 * @param open
 *   opens a stream over some of the chunks. The connection that opened it must fetch from it.
 */
private[transport] final class ChunkRequest(
    service: HostPort,
    chunks: Array[WantedChunk],
    open: Array[WantedChunk] => Future[(TransportClient, OpenStream)],
    deadlines: Deadlines,
    repeats: Repeats,
    receiver: ChunkReceiver) {
  import ChunkRequest.log

  def start(): Unit =
    if (chunks.nonEmpty) new Round(chunks.indices.toArray, Repeats.MaxRepeats).start()

  /** Some of the chunks, in one stream. Those who call it are network threads and the timer's. */
  private final class Round(indices: Array[Int], repeatsLeft: Int) extends ChunkStream.Receiver {
    private val again = mutable.ArrayBuffer.empty[Int]
    private var pauseMs = 0L
    private var left = indices.length

    def start(): Unit = {
      val wanted = indices.map(chunks(_))
      open(wanted).onComplete {
        case opened @ Success((client, stream)) =>
          repeats.settled(service, opened)
          new ChunkStream(service, client, wanted.map(_.sizeBytes), deadlines, this)
            .fetch(stream.streamId)
        case Failure(failure) => indices.indices.foreach(failed(_, failure))
      }(SameThread)
    }

    override def received(at: Int, data: ManagedBuffer): Unit =
      receiver.received(indices(at), data) match {
        case None => settled()
        case Some(damage) =>
          log.warn(s"$service sent a damaged chunk: ${damage.getMessage}")
          failed(at, damage)
      }

    override def failed(at: Int, cause: Throwable): Unit = {
      val index = indices(at)
      repeats.pauseMs(service, FailureClass.of(cause), repeatsLeft) match {
        case Some(ms) =>
          synchronized {
            again += index
            pauseMs = math.max(pauseMs, ms)
          }
        case None =>
          repeats.settled(service, Failure(cause))
          receiver.failed(index, cause)
      }
      settled()
    }

    private def settled(): Unit = {
      val over = synchronized {
        left -= 1
        left == 0
      }
      if (over && again.nonEmpty) {
        RequestTimer.after(pauseMs)(new Round(again.toArray, repeatsLeft - 1).start())
        ()
      }
    }
  }
}

private[transport] object ChunkRequest {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[ChunkRequest])
}
