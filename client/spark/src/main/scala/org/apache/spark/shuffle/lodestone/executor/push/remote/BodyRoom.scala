// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import io.netty.buffer.{ByteBuf, Unpooled}

import org.apache.spark.shuffle.lodestone.executor.push.{BodyMemory, ByteBudget}

/**
 * The part of `spark.lodestone.push.memory` that one body has, from before it is begun until nobody sends
 * it any more. The thread of the task fills it; whoever sends it last ends it.
 *
 * @param alive
 *   throws when the task has to end
 * @param ended
 *   called when it has given all back
 */
private[remote] final class BodyRoom(
    private var reserved: Long,
    budget: ByteBudget,
    memory: BodyMemory,
    alive: () => Unit,
    ended: () => Unit) {
  private var taken = 0L
  private var isPastLimit = false
  private var waited = 0L

  /** How long it waited for more than was reserved. */
  def waitedNanos: Long = waited

  /**
   * One more piece. A body that holds a large record takes more than was reserved; then it waits until
   * there is room for that, too.
   */
  def take(): ByteBuf = {
    taken += BodyMemory.PieceBytes
    if (taken > reserved) reserve(taken)
    try {
      memory.take()
    } catch {
      // Of Netty or the JVM: others use direct memory as well, and it has run out. Spark ends an executor
      // for this error, so the piece comes from the heap. Nothing is in it yet, so that no row is lost. If
      // the heap is full too, Spark ends the executor.
      case _: OutOfMemoryError => Unpooled.buffer(BodyMemory.PieceBytes, BodyMemory.PieceBytes)
    }
  }

  /** The body is whole: it mostly holds little, and others may have what it does not need. */
  def fit(): Unit = {
    budget.release(reserved - taken)
    reserved = taken
  }

  /** No more is needed of it. */
  def end(pieces: Iterable[ByteBuf]): Unit = {
    pieces.foreach(piece => if (piece.isDirect) memory.give(piece) else piece.release())
    budget.release(reserved, isPastLimit)
    ended()
  }

  private def reserve(bytes: Long): Unit = {
    val fromNs = System.nanoTime()
    isPastLimit = budget.extend(bytes - reserved, isPastLimit)(alive())
    reserved = bytes
    waited += System.nanoTime() - fromNs
  }
}
