// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.ScheduledFuture

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.{ChunkReceivedCallback, TransportClient}

/** Who gets the chunks of a stream: each index once, on a network thread or the timer's. */
private[spark] trait ChunkReceiver {

  /** The buffer is released when this returns, unless it was retained. */
  def received(index: Int, data: ManagedBuffer): Unit
  def failed(index: Int, cause: Throwable): Unit
}

/**
 * The chunks of one open stream. They arrive one after another, so time is measured from one to the
 * next: a slow network is no failure as long as something comes.
 */
private[transport] abstract class ChunkStream(
    streamId: Long,
    numChunks: Int,
    receiver: ChunkReceiver,
    timeoutMs: Long)
    extends ChunkReceivedCallback {

  /** Called once if nothing came in time; the reason for the chunks that are missing. */
  protected def stalled(): Throwable

  private val pending = scala.collection.mutable.BitSet.empty ++= (0 until numChunks)
  private var watchdog: Option[ScheduledFuture[_]] = None

  def fetchFrom(client: TransportClient): Unit = {
    rearm()
    (0 until numChunks).foreach(client.fetchChunk(streamId, _, this))
  }

  override def onSuccess(index: Int, data: ManagedBuffer): Unit =
    if (take(index)) receiver.received(index, data)

  override def onFailure(index: Int, cause: Throwable): Unit =
    if (take(index)) receiver.failed(index, cause)

  private def take(index: Int): Boolean = synchronized {
    val mine = pending.remove(index)
    if (mine) rearm()
    mine
  }

  private def rearm(): Unit = synchronized {
    watchdog.foreach(_.cancel(false))
    watchdog = if (pending.isEmpty) None else Some(RequestTimer.after(timeoutMs)(giveUp()))
  }

  private def giveUp(): Unit = {
    val missing = synchronized {
      val left = pending.toArray
      pending.clear()
      left
    }
    if (missing.nonEmpty) {
      val cause = stalled()
      missing.foreach(receiver.failed(_, cause))
    }
  }
}
