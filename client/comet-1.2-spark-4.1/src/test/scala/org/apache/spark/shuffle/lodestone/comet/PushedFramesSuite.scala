// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows}
import org.junit.jupiter.api.Test

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.engine.{FramePush, FrameReservation}
import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.shuffle.lodestone.executor.rows.frames.TestFrames

/** The calls of native code, and what the push of an engine gets of them. */
final class PushedFramesSuite {
  private val pushed = ArrayBuffer.empty[(Int, String)]
  private var open = 0
  private val push = new FramePush {
    override def push(partition: Int, bytes: Array[Byte], offset: Int, length: Int): Unit = {
      pushed += partition -> new String(bytes, offset, length, "UTF-8")
      ()
    }
    override def push(partition: Int, frame: ByteBuffer): Unit =
      throw new UnsupportedOperationException("native code gives arrays")
    override def reserve(maxLength: Int): FrameReservation = {
      open += 1
      () => open -= 1
    }
    override def partitionLengths(): Array[Long] = Array.empty
    override def commit(): MapStatus = throw new UnsupportedOperationException("another thread's")
    override def abort(): Unit = ()
    override def causeOf(thrown: Throwable): Throwable = thrown
  }
  private val frames = new PushedFrames(push, TestFrames)

  @Test def `the bytes of a frame are pushed and not what is behind them in the array`(): Unit = {
    val two = TestFrames.of("ab", "cde")
    frames.pushPartitionData(7, two ++ "rest".getBytes, two.length)
    assertEquals(Seq(7 -> new String(two, "UTF-8")), pushed.toSeq)
  }

  @Test def `a push that ends in a frame fails its task and nothing of it is pushed`(): Unit = {
    val two = TestFrames.of("ab", "cde")
    for (length <- 1 until two.length if length != TestFrames.of("ab").length) {
      assertThrows(
        classOf[IllegalStateException],
        () => frames.pushPartitionData(0, two, length))
    }
    assertThrows(
      classOf[BrokenRowsException],
      () => frames.pushPartitionData(0, "?????".getBytes, 5))
    assertEquals(Nil, pushed.toSeq)
  }

  @Test def `an announcement is taken back once, also if native code forgets it`(): Unit = {
    frames.reservePartitionData(10)
    frames.reservePartitionData(20)
    assertEquals(1, open)
    frames.releasePartitionDataReservation()
    frames.releasePartitionDataReservation()
    assertEquals(0, open)
  }
}
