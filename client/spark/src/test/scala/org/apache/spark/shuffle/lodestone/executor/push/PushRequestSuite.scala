// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.{EOFException, IOException}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path}
import java.util.zip.CRC32C

import scala.util.Random

import io.netty.buffer.ByteBuf
import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.shuffle.lodestone.executor.push.records.RecordCounts
import org.apache.spark.shuffle.lodestone.plan.ShuffleGeneration
import org.apache.spark.shuffle.lodestone.wire.Crc32c

class PushRequestSuite {
  import PiecePool.PieceBytes

  @TempDir var dir: Path = _

  private val pool = new PiecePool

  private def file(bytes: Array[Byte]): FileChannel =
    FileChannel.open(Files.write(dir.resolve("output.data"), bytes))

  private def random(length: Int): Array[Byte] = {
    val bytes = new Array[Byte](length)
    new Random(length).nextBytes(bytes)
    bytes
  }

  /** Blocks one after another, from this offset of the file on. */
  private def read(channel: FileChannel, offset: Int, lengths: Int*): SegmentBuffer =
    read(channel, (offset +: lengths).map(_.toLong), lengths.indices.map(_ + 1): _*)

  /** Some of the blocks of a file. */
  private def read(channel: FileChannel, lengths: Seq[Long], reduceIds: Int*): SegmentBuffer =
    readIf(channel, lengths, None, reduceIds)

  private def readIf(
      channel: FileChannel,
      lengths: Seq[Long],
      written: Option[Array[Long]],
      reduceIds: Seq[Int]): SegmentBuffer = {
    val size = reduceIds.map(lengths(_)).sum
    val budget = new ByteBudget(size)
    budget.acquire(size)(())
    val returned = () => assertEquals(0L, budget.used)
    val now = System.nanoTime()
    val buffer = new SegmentBuffer(now, size, budget, pool, isRequired = false, () => (), returned)
    val records = Some(new RecordCounts(lengths.size))
    val id = ShuffleGeneration(3, 0)
    val map = MapOutput(id, 4, 5, lengths.toArray, records, () => null, written)
    try PushRequest(0, reduceIds.toArray, size.toInt, 0, isWhole = true).read(channel, map, buffer)
    catch {
      case failure: IOException =>
        buffer.release()
        throw failure
    }
    buffer
  }

  private def sent(buffer: SegmentBuffer): ByteBuf =
    buffer.slice(0, buffer.segments.length).convertToNetty().asInstanceOf[ByteBuf]

  private def copy(bytes: ByteBuf): Array[Byte] = {
    val copy = new Array[Byte](bytes.readableBytes())
    bytes.getBytes(bytes.readerIndex(), copy)
    copy
  }

  @Test def `a block that has changed since it was written is not pushed`(): Unit = {
    val output = random(3000)
    val channel = file(output)
    def crc(bytes: Array[Byte]): Long = {
      val crc = new CRC32C
      crc.update(bytes, 0, bytes.length)
      crc.getValue
    }
    val written = Array(crc(output.take(1000)), crc(output.drop(1000)))
    readIf(channel, Seq(1000L, 2000L), Some(written), Seq(0, 1)).release()
    written(1) ^= 1
    val failure = assertThrows(
      classOf[IOException],
      () => { readIf(channel, Seq(1000L, 2000L), Some(written), Seq(0, 1)); () })
    assertTrue(failure.getMessage.contains("partition 1 is not as"), failure.getMessage)
  }

  @Test def `a request of any size is the bytes of the file with their checksums`(): Unit = {
    val output = random(3 * PieceBytes)
    val channel = file(output)
    for (size <- Seq(1, PieceBytes - 1, PieceBytes, PieceBytes + 1, 2 * PieceBytes + 77)) {
      val buffer = read(channel, 100, 1, size)
      val bytes = sent(buffer)
      assertArrayEquals(output.slice(100, 101 + size), copy(bytes))
      val crc = Crc32c.of(ByteBuffer.wrap(output, 101, size))
      assertEquals(crc, buffer.segments(1).crc32c)
      bytes.release()
      buffer.release()
    }
    channel.close()
  }

  @Test def `ranges of the file are gathered in their order`(): Unit = {
    val output = random(3 * PieceBytes)
    val channel = file(output)
    val far = 2 * PieceBytes
    for (size <- Seq(1, 1000, PieceBytes - 1, PieceBytes)) {
      val lengths = Seq[Long](7, 10, 83, size.toLong, far - 100L - size, 99)
      val buffer = read(channel, lengths, 1, 3, 5)
      val bytes = sent(buffer)
      val expected =
        output.slice(7, 17) ++ output.slice(100, 100 + size) ++ output.slice(far, far + 99)
      assertArrayEquals(expected, copy(bytes), s"size $size")
      assertEquals(Crc32c.of(ByteBuffer.wrap(output, far, 99)), buffer.segments(2).crc32c)
      bytes.release()
      buffer.release()
    }
    channel.close()
  }

  @Test def `memory is used again, but not as long as somebody sends it`(): Unit = {
    val channel = file(random(2 * PieceBytes))
    def whole() = read(channel, 0, 2 * PieceBytes)
    val first = whole()
    val onItsWay = sent(first)
    val before = copy(onItsWay)
    first.release()
    assertEquals(0, pool.freeBytes)
    val second = whole()
    second.release()
    assertEquals(2L * PieceBytes, pool.freeBytes)
    whole().release()
    assertEquals(2L * PieceBytes, pool.freeBytes)
    assertArrayEquals(before, copy(onItsWay))
    onItsWay.release()
    pool.clear()
    assertEquals(0, pool.freeBytes)
    channel.close()
  }

  @Test def `no more memory is kept than the limit`(): Unit = {
    val pieces = Seq.fill(PiecePool.MaxFreePieces + 3)(pool.take())
    pieces.foreach(pool.give)
    assertEquals(PiecePool.MaxFreePieces.toLong * PieceBytes, pool.freeBytes)
    pool.clear()
  }

  @Test def `a file that is too short is an error, and no memory is lost`(): Unit = {
    val channel = file(random(PieceBytes + 10))
    assertThrows(
      classOf[EOFException],
      () => {
        read(channel, 0, PieceBytes, 11)
        ()
      })
    assertEquals(PieceBytes.toLong, pool.freeBytes)
    channel.close()
  }
}
