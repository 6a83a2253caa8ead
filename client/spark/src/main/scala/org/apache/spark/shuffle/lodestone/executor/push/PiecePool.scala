// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.ArrayDeque

import io.netty.buffer.{ByteBuf, PooledByteBufAllocator, Unpooled}

/**
 * Pieces of direct memory for segment buffers, used again while map tasks follow each other: fresh
 * memory costs the kernel more than to read a map output into it, and Netty's own pool gives memory
 * of this size back to the system as soon as it is free.
 */
private[push] final class PiecePool(fresh: () => ByteBuf) {
  import PiecePool._

  def this() = this(() => Unpooled.directBuffer(PiecePool.PieceBytes, PiecePool.PieceBytes))

  private val free = new ArrayDeque[ByteBuf]()

  /** Smaller pieces come from Netty's pool. */
  def take(bytes: Int = PieceBytes): ByteBuf =
    if (bytes < PieceBytes) {
      PooledByteBufAllocator.DEFAULT.directBuffer(bytes, bytes)
    } else {
      synchronized(Option(free.pollLast())) match {
        case Some(piece) => piece.clear()
        case None => fresh()
      }
    }

  /** Keeps the piece, unless it is of another size or kind, or is still being sent. */
  def give(piece: ByteBuf): Unit = {
    val isWhole = piece.isDirect && piece.capacity() == PieceBytes
    val isKept = isWhole && piece.refCnt() == 1 && synchronized {
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

private[push] object PiecePool {

  /** Bytes that are read with one call. */
  val PieceBytes: Int = 256 * 1024

  /** A quarter of the default of `push.memory`. */
  val MaxFreePieces = 64
}
