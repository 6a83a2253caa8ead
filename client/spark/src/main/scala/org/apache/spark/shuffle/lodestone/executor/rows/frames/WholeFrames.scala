// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.frames

import java.io.{EOFException, InputStream}
import java.nio.ByteBuffer

import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException

/**
 * Bytes that are frames, each with a head of its shuffle, and the last one whole. An engine may
 * take the end of a stream in the middle of a frame, or an `EOFException`, for the end of all
 * frames: rows would be lost.
 */
private[lodestone] final class WholeFrames(in: InputStream, heads: FrameHeads)
    extends InputStream {
  private val head = new Array[Byte](heads.headBytes)
  private val one = new Array[Byte](1)

  /** Bytes of the frame that were read: of its head, and not yet of its body. */
  private var headRead = head.length
  private var bodyLeft = 0

  /**
   * Begins the next frame, after the last one was read to its end. Returns the number of its bytes,
   * or 0 if there is none.
   */
  def nextFrame(): Int = {
    require(headRead == head.length && bodyLeft == 0, "the last frame was not read to its end")
    val found = guarded(in.readNBytes(head, 0, head.length))
    if (found == 0) {
      0
    } else {
      if (found < head.length) fail("they end in the head of a frame")
      bodyLeft = heads.bodyBytes(ByteBuffer.wrap(head))
      headRead = 0
      Math.addExact(head.length, bodyLeft)
    }
  }

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (headRead == head.length && bodyLeft == 0 && nextFrame() == 0) -1
    else if (headRead < head.length) {
      val some = math.min(length, head.length - headRead)
      System.arraycopy(head, headRead, target, offset, some)
      headRead += some
      some
    } else {
      val some = guarded(in.read(target, offset, math.min(length, bodyLeft)))
      if (some < 0) fail(s"they end $bodyLeft bytes before the end of a frame")
      bodyLeft -= some
      some
    }

  override def close(): Unit = in.close()

  private def guarded(read: => Int): Int =
    try read
    catch {
      // The stream of a block ends early: its file or its connection does.
      case cause: EOFException => fail(s"they end early (${cause.getMessage})")
    }

  private def fail(what: String): Nothing = throw new BrokenRowsException(s"frames: $what")
}
