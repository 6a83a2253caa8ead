// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.util.SplittableRandom

import scala.collection.mutable.ArrayBuffer

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

final class WaitingFramesSuite {

  @Test def `frames come out as they were by rank and in order`(): Unit = {
    val seed = System.nanoTime()
    println(s"frames of seed $seed")
    val random = new SplittableRandom(seed)
    val memory = new WaitingMemory(32L << 20)
    val waiting = new WaitingFrames(memory, 32L << 20)
    for (round <- 1 to 3) {
      val added = ArrayBuffer.empty[(Int, Array[Byte])]
      for (_ <- 1 to 1000) {
        val bytes = new Array[Byte](if (random.nextInt(50) == 0) 200000 else random.nextInt(2000))
        random.nextBytes(bytes)
        val rank = if (random.nextInt(9) == 0) Int.MaxValue else random.nextInt(7)
        val buffer =
          if (random.nextBoolean()) ByteBuffer.wrap(bytes.clone())
          else ByteBuffer.allocateDirect(bytes.length).put(bytes)
        if (buffer.isDirect) buffer.flip()
        assertTrue(waiting.add(rank, buffer))
        added += rank -> bytes
      }
      val sorted = added.sortBy(_._1)
      val found = waiting.inOrder
      assertEquals(sorted.map(_._1), found.map(_.rank).toSeq)
      for (((_, bytes), frame) <- sorted.zip(found)) {
        val out = new ByteArrayOutputStream
        waiting.write(frame, out)
        assertArrayEquals(bytes, out.toByteArray, s"round $round")
      }
      assertTrue(memory.usedBytes >= added.map(_._2.length.toLong).sum)
      waiting.clear()
      assertTrue(waiting.inOrder.isEmpty)
      assertEquals(0L, memory.usedBytes)
    }
  }

  @Test def `each of several opened may have as much and a full one takes nothing`(): Unit = {
    val memory = new WaitingMemory(4L * WaitingFrames.PageBytes)
    def frame = ByteBuffer.allocate(WaitingFrames.PageBytes - 8)
    val one = new WaitingFrames(memory, mostBytes = 3L * WaitingFrames.PageBytes)
    for (_ <- 1 to 3) assertTrue(one.add(0, frame))
    assertFalse(one.add(0, frame), "it has enough")
    assertEquals(3, one.inOrder.length)
    val two = new WaitingFrames(memory, mostBytes = 3L * WaitingFrames.PageBytes)
    assertTrue(two.add(0, frame))
    assertFalse(two.add(0, frame), "the other one has the rest")
    one.clear()
    for (_ <- 1 to 2) assertTrue(one.add(0, frame))
    assertFalse(one.add(0, frame), "half of it is for the other one")
    two.close()
    two.close()
    assertTrue(one.add(0, frame))
    one.close()
    assertEquals(0L, memory.usedBytes)
    assertEquals(4L * WaitingFrames.PageBytes, memory.shareBytes)
  }

  @Test def `tiny frames are sent before their order takes much memory`(): Unit = {
    val waiting = new WaitingFrames(new WaitingMemory(32L << 20), 32L << 20)
    for (_ <- 1 to WaitingFrames.MostFrames) assertTrue(waiting.add(1, ByteBuffer.allocate(1)))
    assertFalse(waiting.add(1, ByteBuffer.allocate(1)))
    waiting.close()
  }
}
