// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException

import scala.collection.mutable

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.{ChunkReceivedCallback, TransportClient}
import org.apache.spark.shuffle.lodestone.HostPort
import org.apache.spark.shuffle.lodestone.wire.ChunkPlaces

/** One chunk, and how many bytes it has. */
private[spark] final case class WantedChunk(places: ChunkPlaces, sizeBytes: Long) {

  /** What it takes of the room that a service has for the open streams of a connection. */
  def entries: Int = 1 + places.runs.length
}

/** Who gets the chunks of a request: each index once, on a network thread or the timer's. */
private[spark] trait ChunkReceiver {

  /**
   * The buffer is released when this returns, unless it was retained. What is wrong with the bytes,
   * if they were not taken: they are asked for once more then.
   */
  def received(index: Int, data: ManagedBuffer): Option[DamagedChunkException]
  def failed(index: Int, cause: Throwable): Unit
}

/**
 * The chunks of one open stream. They arrive one after another, so time is measured from one to the
 * next: a slow network is no failure as long as something comes.
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
      // Spark's iterator wants an error as it is: it asks again later when memory was short.
      case _: IOException | _: Error => Connections.retire(client)
      case _ => deadlines.heard(service)
    }
    if (take(index)) receiver.failed(index, cause)
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

  /** Who gets the chunks of a stream: each index once. */
  trait Receiver {
    def received(index: Int, data: ManagedBuffer): Unit
    def failed(index: Int, cause: Throwable): Unit
  }
}
