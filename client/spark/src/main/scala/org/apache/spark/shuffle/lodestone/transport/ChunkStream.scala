// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException

import scala.collection.mutable

import io.netty.buffer.ByteBuf

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.{ChunkFetchFailureException, ChunkReceivedCallback}
import org.apache.spark.network.client.TransportClient
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.wire.{Refused, RefusedException, Status, WantedChunk}

private[spark] final case class SizedChunk(wanted: WantedChunk, sizeBytes: Long) {

  /** The number of entries that it takes in the list of open streams at the service. */
  def entries: Int = 1 + wanted.runs.length
}

/** Receives each chunk of a request once, on a network thread or on the timer's thread. */
private[spark] trait ChunkReceiver {

  /**
   * Takes a chunk, or returns what is wrong with its bytes: then they are requested once more. The
   * caller releases the buffer afterwards, unless this retains it.
   */
  def received(index: Int, data: ManagedBuffer): Option[DamagedChunkException]
  def failed(index: Int, cause: Throwable): Unit
}

/**
 * The chunks of one open stream. They arrive one after another, and each has its own time limit: a
 * slow network is no failure as long as chunks arrive.
 */
private[transport] final class ChunkStream(
    service: HostPort,
    client: TransportClient,
    sizes: Array[Long],
    deadlines: Deadlines,
    receiver: ChunkStream.Receiver)
    extends ChunkReceivedCallback {
  private val pending = mutable.BitSet.empty ++= sizes.indices
  private val deadline: Option[Deadlines#Deadline] =
    if (pending.isEmpty) None else Some(deadlines.start(service, sizes(0))(giveUp))

  def fetch(streamId: Long): Unit = sizes.indices.foreach(client.fetchChunk(streamId, _, this))

  override def onSuccess(index: Int, data: ManagedBuffer): Unit = {
    deadlines.heard(service)
    if (take(index)) receiver.received(index, data)
  }

  override def onFailure(index: Int, cause: Throwable): Unit = {
    cause match {
      // Errors are passed on as they are: after one for lack of memory, Spark's iterator retries.
      case _: IOException | _: Error => Connections.retire(client)
      case _ => deadlines.heard(service)
    }
    if (take(index)) receiver.failed(index, ChunkStream.refusalIn(cause))
  }

  private def take(index: Int): Boolean = synchronized {
    val mine = pending.remove(index)
    if (mine) pending.headOption match {
      case Some(next) => deadline.foreach(_.restart(sizes(next)))
      case None => deadline.foreach(_.met())
    }
    mine
  }

  private def giveUp(cause: IOException): Unit = {
    val missing = synchronized {
      val left = pending.toArray
      pending.clear()
      left
    }
    missing.foreach(receiver.failed(_, cause))
  }
}

private[transport] object ChunkStream {

  /** Spark's frame for a chunk that is not sent has a text only. It begins with the code. */
  private val Refusal = """\[([A-Z_]+)\] (.*)""".r.unanchored

  private def refusalIn(failure: Throwable): Throwable = failure match {
    case unsent: ChunkFetchFailureException =>
      val refused = for {
        Refusal(name, detail) <- Option(unsent.getMessage)
        status <- Status.named(name)
      } yield new RefusedException(Refused(status, NoIncarnation, detail))
      refused.getOrElse(unsent)
    case other => other
  }

  private val NoIncarnation = 0L

  /** Receives each chunk of a stream once. */
  trait Receiver {
    def received(index: Int, data: ManagedBuffer): Unit
    def failed(index: Int, cause: Throwable): Unit
  }
}

/** Returns the bytes of a chunk. The caller releases them. */
private[lodestone] object ChunkBytes {

  /** Keeps the buffers in which the bytes arrived: Spark's `nioByteBuffer` would copy them. */
  def apply(data: ManagedBuffer): ByteBuf = data.convertToNetty().asInstanceOf[ByteBuf]
}
