// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.nio.ByteBuffer

import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Assertions._

import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.shuffle.lodestone.wire.{Crc32c, LaidSegment}

class ChunkDamageSuite {

  private val blocks = Seq("first block", "second", "the third block").map(_.getBytes)
  private val chunk = AcceptedChunk(
    4,
    blocks.zipWithIndex.map { case (bytes, map) =>
      LaidSegment(map, 100L + map, bytes.length, -1L, Crc32c.of(ByteBuffer.wrap(bytes)))
    }.toArray)

  private def bytes: Array[Byte] = blocks.reduce(_ ++ _)

  @Test def `an intact chunk is handed over, also from the middle of a larger buffer`(): Unit = {
    assertEquals(None, ChunkFetcher.damage(chunk, ByteBuffer.wrap(bytes)))
    val larger = ByteBuffer.wrap(Array[Byte](1, 2, 3) ++ bytes)
    larger.position(3)
    assertEquals(None, ChunkFetcher.damage(chunk, larger.slice()))
    assertEquals(None, ChunkFetcher.damage(chunk, larger))
  }

  @Test def `one flipped bit anywhere is found`(): Unit =
    bytes.indices.foreach { at =>
      val damaged = bytes
      damaged(at) = (damaged(at) ^ 0x10).toByte
      assertTrue(ChunkFetcher.damage(chunk, ByteBuffer.wrap(damaged)).isDefined, s"byte $at")
    }

  @Test def `a chunk that is too short or too long is refused`(): Unit = {
    assertTrue(ChunkFetcher.damage(chunk, ByteBuffer.wrap(bytes.dropRight(1))).isDefined)
    assertTrue(ChunkFetcher.damage(chunk, ByteBuffer.wrap(bytes :+ 0.toByte)).isDefined)
  }

  @Test def `what is left out of a chunk is checked, and not handed over`(): Unit = {
    val without = chunk.copy(leftOut = Set(0, 2))
    assertEquals(None, ChunkFetcher.damage(without, ByteBuffer.wrap(bytes)))
    val wanted = ChunkFetcher.wanted(without, new NioManagedBuffer(ByteBuffer.wrap(bytes)))
    assertEquals(ByteBuffer.wrap(blocks(1)), wanted.nioByteBuffer())
    val damaged = bytes
    damaged(0) = 'F'
    assertTrue(ChunkFetcher.damage(without, ByteBuffer.wrap(damaged)).isDefined)
  }

  @Test def `a chunk of which all is read is handed over as it is`(): Unit = {
    val buffer = new NioManagedBuffer(ByteBuffer.wrap(bytes))
    assertSame(buffer, ChunkFetcher.wanted(chunk, buffer))
  }

  @Test def `the checksum is the one of the protocol`(): Unit =
    assertEquals(0xe3069283, Crc32c.of(ByteBuffer.wrap("123456789".getBytes)))
}
