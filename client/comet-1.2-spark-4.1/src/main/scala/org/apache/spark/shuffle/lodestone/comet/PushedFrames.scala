// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import java.nio.ByteBuffer

import org.apache.comet.shuffle.ShufflePartitionPusher
import org.apache.spark.shuffle.lodestone.engine.{FramePush, FrameReservation}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameHeads

/**
 * What native code of Comet calls, with an array that it may write over as soon as a call returns.
 * It announces a frame, and the memory that it needs to make it, on the thread that pushes it, and
 * takes the announcements back after that. It cuts batches of rows so that frames have the limit
 * that it gets here, and holds each of them in an array on the heap.
 *
 * @param heads
 *   what the heads of frames say
 */
private[comet] final class PushedFrames(push: FramePush, heads: FrameHeads)
    extends ShufflePartitionPusher {
  private val announced = new ThreadLocal[FrameReservation]

  override def maxFrameBytes(): Int = PushedFrames.MaxFrameBytes

  override def reservePartitionData(maxLength: Int): Unit = {
    releasePartitionDataReservation()
    announced.set(push.reserve(maxLength))
  }

  override def releasePartitionDataReservation(): Unit = {
    Option(announced.get).foreach(_.close())
    announced.remove()
  }

  override def pushPartitionData(partition: Int, bytes: Array[Byte], length: Int): Unit = {
    requireWhole(bytes, length)
    push.push(partition, bytes, 0, length)
  }

  /** Readers get what one call has pushed before or behind what any other has. */
  private def requireWhole(bytes: Array[Byte], length: Int): Unit = {
    var begin = 0
    while (begin < length) {
      val head = math.min(heads.headBytes, length - begin)
      val body =
        if (head < heads.headBytes) 0 else heads.bodyBytes(ByteBuffer.wrap(bytes, begin, head))
      if (head < heads.headBytes || body > length - begin - head) {
        throw new IllegalStateException(s"Comet pushes $length bytes that are no whole frames")
      }
      begin += head + body
    }
  }
}

private[comet] object PushedFrames {

  /** Each task of an executor may have one such frame on the heap. */
  private val MaxFrameBytes = 16 << 20
}
