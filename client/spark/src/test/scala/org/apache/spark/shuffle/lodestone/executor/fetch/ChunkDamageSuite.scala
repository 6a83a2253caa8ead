// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.nio.ByteBuffer

import io.netty.buffer.{ByteBuf, Unpooled}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Assertions._

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.transport.{ChunkDamage, DamagedChunkException}
import org.apache.spark.shuffle.lodestone.wire.{Crc32c, LaidSegment, SegmentRun}

class ChunkDamageSuite {

  private val blocks = Seq("first block", "second", "the third block").map(_.getBytes)
  private val chunk = FetchChunk(
    ServiceLocation("127.0.0.1", 1, 7),
    0,
    Array(SegmentRun(4, 3)),
    blocks.zipWithIndex.map { case (bytes, map) =>
      LaidSegment(map, 100L + map, 0, bytes.length, -1, Crc32c.of(ByteBuffer.wrap(bytes)))
    }.toArray)

  private def bytes: Array[Byte] = blocks.reduce(_ ++ _)

  private def damage(chunk: FetchChunk, bytes: Array[Byte]): Option[DamagedChunkException] =
    ChunkDamage(chunk.reduceId, chunk.segments, Unpooled.wrappedBuffer(bytes))

  /** As a network brings them. */
  private def inPieces(bytes: Array[Byte], ends: Int*): ByteBuf = {
    val starts = 0 +: ends
    val pieces = starts.zip(ends :+ bytes.length).map { case (from, until) =>
      bytes.slice(from, until)
    }
    Unpooled.wrappedBuffer(pieces: _*)
  }

  @Test def `an intact chunk is handed over, also from the middle of a larger buffer`(): Unit = {
    assertEquals(None, damage(chunk, bytes))
    val larger = Unpooled.wrappedBuffer(Array[Byte](1, 2, 3) ++ bytes)
    larger.skipBytes(3)
    assertEquals(None, ChunkDamage(chunk.reduceId, chunk.segments, larger.slice()))
    assertEquals(None, ChunkDamage(chunk.reduceId, chunk.segments, larger))
  }

  @Test def `it does not matter where the network cuts a chunk`(): Unit = {
    val whole = bytes
    for (first <- whole.indices; second <- first until whole.length) {
      assertEquals(
        None,
        ChunkDamage(chunk.reduceId, chunk.segments, inPieces(whole, first, second)))
    }
    val damaged = whole
    damaged(whole.length - 1) = '!'
    assertTrue(ChunkDamage(chunk.reduceId, chunk.segments, inPieces(damaged, 5, 12)).isDefined)
  }

  @Test def `one flipped bit anywhere is found`(): Unit =
    bytes.indices.foreach { at =>
      val damaged = bytes
      damaged(at) = (damaged(at) ^ 0x10).toByte
      assertTrue(damage(chunk, damaged).isDefined, s"byte $at")
    }

  @Test def `a chunk that is too short or too long is refused`(): Unit = {
    assertTrue(damage(chunk, bytes.dropRight(1)).isDefined)
    assertTrue(damage(chunk, bytes :+ 0.toByte).isDefined)
  }

  private def namedIn(chunk: FetchChunk, bytes: Array[Byte]): Option[Int] =
    damage(chunk, bytes).map(_.segment.mapIndex)

  @Test def `the driver gets the segment that differs from its layout`(): Unit = {
    val damaged = bytes
    damaged(blocks.head.length) = '!'
    assertEquals(Some(1), namedIn(chunk, damaged))
    assertEquals(Some(blocks.length - 1), namedIn(chunk, bytes.dropRight(1)))
    // The layout was damaged on the way, and not the chunk.
    val segments = chunk.segments.clone()
    segments(1) = segments(1).copy(length = segments(1).length + 256)
    assertEquals(Some(1), namedIn(chunk.copy(segments = segments), bytes))
    segments(1) = chunk.segments(1).copy(length = chunk.segments(1).length - 1)
    assertEquals(Some(1), namedIn(chunk.copy(segments = segments), bytes))
  }

  @Test def `the checksum is the one of the protocol`(): Unit =
    assertEquals(0xe3069283, Crc32c.of(ByteBuffer.wrap("123456789".getBytes)))
}
