// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.ArrayDeque

import io.netty.buffer.{ByteBuf, Unpooled}

/**
 * Pieces of direct memory for the bodies of requests, used again while maps follow each other: fresh
 * memory costs the kernel more than to read a map output into it, and Netty's own pool gives memory
 * of this size back to the system as soon as it is free.
 */
private[push] final class BodyMemory(fresh: () => ByteBuf) {
  import BodyMemory._

  def this() = this(() => Unpooled.directBuffer(BodyMemory.PieceBytes, BodyMemory.PieceBytes))

  private val free = new ArrayDeque[ByteBuf]()

  def take(): ByteBuf =
    synchronized(Option(free.pollLast())) match {
      case Some(piece) => piece.clear()
      case None => fresh()
    }

  /** Of a piece that somebody still sends only our hold on it goes. */
  def give(piece: ByteBuf): Unit = {
    val isKept = piece.refCnt() == 1 && synchronized {
      free.size < MaxFreePieces && free.offerLast(piece)
    }
    if (!isKept) piece.release()
  }

  /** Gives all that is free back to the system. */
  def clear(): Unit = synchronized {
    free.forEach(piece => piece.release())
    free.clear()
  }

  /** Bytes of what is free. */
  def freeBytes: Long = synchronized(free.size.toLong * PieceBytes)
}

private[push] object BodyMemory {

  /** What is read with one call. Smaller rests come from Netty's pool. */
  val PieceBytes: Int = 256 * 1024

  /** A quarter of `push.memory` as it comes. */
  val MaxFreePieces = 64
}
