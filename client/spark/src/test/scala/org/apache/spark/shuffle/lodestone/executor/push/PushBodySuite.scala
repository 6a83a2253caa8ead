// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.EOFException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path}

import scala.util.Random

import io.netty.buffer.ByteBuf
import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.HashPartitioner
import org.apache.spark.shuffle.lodestone.executor.push.records.RecordCounts
import org.apache.spark.shuffle.lodestone.wire.Crc32c

class PushBodySuite {
  import BodyMemory.PieceBytes

  @TempDir var dir: Path = _

  private val memory = new BodyMemory
  private val uncounted = RecordCounts(new HashPartitioner(3))

  private def file(bytes: Array[Byte]): FileChannel =
    FileChannel.open(Files.write(dir.resolve("output.data"), bytes))

  private def random(length: Int): Array[Byte] = {
    val bytes = new Array[Byte](length)
    new Random(length).nextBytes(bytes)
    bytes
  }

  private def request(offset: Long, lengths: Int*): PushRequest =
    gathered(Seq(FileRange(offset, lengths.map(_.toLong).sum)), lengths: _*)

  private def gathered(ranges: Seq[FileRange], lengths: Int*): PushRequest =
    PushRequest(0, ranges.toArray, lengths.indices.toArray, lengths.toArray, firstSegment = 0)

  private def sent(body: PushBody): ByteBuf = body.buffer.convertToNetty().asInstanceOf[ByteBuf]

  private def copy(bytes: ByteBuf): Array[Byte] = {
    val copy = new Array[Byte](bytes.readableBytes())
    bytes.getBytes(bytes.readerIndex(), copy)
    copy
  }

  @Test def `a request of any size is the bytes of the file with their checksums`(): Unit = {
    val output = random(3 * PieceBytes)
    val channel = file(output)
    for (size <- Seq(1, PieceBytes - 1, PieceBytes, PieceBytes + 1, 2 * PieceBytes + 77)) {
      val body = PushBody.read(channel, request(100, 1, size), uncounted, memory)
      val bytes = sent(body)
      assertArrayEquals(output.slice(100, 101 + size), copy(bytes))
      val crc = Crc32c.of(ByteBuffer.wrap(output, 101, size))
      assertEquals(crc, body.segments(1).crc32c)
      bytes.release()
      body.free()
    }
    channel.close()
  }

  @Test def `ranges of the file are gathered in their order`(): Unit = {
    val output = random(3 * PieceBytes)
    val channel = file(output)
    val far = 2 * PieceBytes
    for (size <- Seq(1, 1000, PieceBytes - 1, PieceBytes)) {
      val ranges = Seq(FileRange(7, 10), FileRange(100, size.toLong), FileRange(far.toLong, 99))
      val body = PushBody.read(channel, gathered(ranges, 10, size, 99), uncounted, memory)
      val bytes = sent(body)
      val expected =
        output.slice(7, 17) ++ output.slice(100, 100 + size) ++ output.slice(far, far + 99)
      assertArrayEquals(expected, copy(bytes), s"size $size")
      assertEquals(Crc32c.of(ByteBuffer.wrap(output, far, 99)), body.segments(2).crc32c)
      bytes.release()
      body.free()
    }
    channel.close()
  }

  @Test def `memory is used again, but not as long as somebody sends it`(): Unit = {
    val channel = file(random(2 * PieceBytes))
    val whole = request(0, 2 * PieceBytes)
    val first = PushBody.read(channel, whole, uncounted, memory)
    val onItsWay = sent(first)
    val before = copy(onItsWay)
    first.free()
    assertEquals(0, memory.freeBytes)
    val second = PushBody.read(channel, whole, uncounted, memory)
    second.free()
    assertEquals(2L * PieceBytes, memory.freeBytes)
    PushBody.read(channel, whole, uncounted, memory).free()
    assertEquals(2L * PieceBytes, memory.freeBytes)
    assertArrayEquals(before, copy(onItsWay))
    onItsWay.release()
    memory.clear()
    assertEquals(0, memory.freeBytes)
    channel.close()
  }

  @Test def `no more memory is kept than the limit`(): Unit = {
    val pieces = Seq.fill(BodyMemory.MaxFreePieces + 3)(memory.take())
    pieces.foreach(memory.give)
    assertEquals(BodyMemory.MaxFreePieces.toLong * PieceBytes, memory.freeBytes)
    memory.clear()
  }

  @Test def `a file that is too short is an error, and no memory is lost`(): Unit = {
    val channel = file(random(PieceBytes + 10))
    val more = request(0, PieceBytes, 11)
    assertThrows(
      classOf[EOFException],
      () => PushBody.read(channel, more, uncounted, memory))
    assertEquals(PieceBytes.toLong, memory.freeBytes)
    channel.close()
  }
}
