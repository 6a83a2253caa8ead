// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import java.nio.ByteBuffer

import org.apache.comet.shuffle.ShufflePartitionPusher
import org.apache.spark.shuffle.lodestone.engine.{FramePush, FrameReservation}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameHeads

/**
 * What native code of Comet calls, with an array that it may write over as soon as a call returns.
 * It announces a frame on the thread that pushes it, and takes the announcement back after that.
 * It is not given the limit of a frame, which would fail the job: the push refuses a frame that is
 * too large, and the executor keeps the outputs of the shuffle then.
 *
 * @param heads
 *   what the heads of frames say
 */
private[comet] final class PushedFrames(push: FramePush, heads: FrameHeads)
    extends ShufflePartitionPusher {
  private val announced = new ThreadLocal[FrameReservation]

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
