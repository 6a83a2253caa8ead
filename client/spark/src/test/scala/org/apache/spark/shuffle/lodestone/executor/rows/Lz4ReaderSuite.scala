// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream, IOException}

import scala.util.{Failure, Random, Success, Try}

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.io.LZ4CompressionCodec

/** The blocks that Spark's codec wrote, read without it. */
final class Lz4ReaderSuite {
  private val seed = System.nanoTime()
  private val random = new Random(seed)

  private def confOf(blockSize: String): SparkConf =
    new SparkConf(false).set("spark.io.compression.lz4.blockSize", blockSize)

  private def bytes(length: Int, kinds: Int): Array[Byte] =
    Array.fill(length)(random.nextInt(kinds).toByte)

  /** Several streams of the codec, one after another, as blocks of several maps are. */
  private def written(blockSize: String, parts: Seq[Array[Byte]]): Array[Byte] = {
    val all = new ByteArrayOutputStream
    parts.foreach { part =>
      val stream = new LZ4CompressionCodec(confOf(blockSize)).compressedOutputStream(all)
      stream.write(part)
      stream.close()
    }
    all.toByteArray
  }

  /** Reads at most so many bytes at a time. */
  private def readAll(in: InputStream, most: Int): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val piece = new Array[Byte](most)
    Iterator
      .continually(in.read(piece, 0, 1 + random.nextInt(most)))
      .takeWhile(_ >= 0)
      .foreach(out.write(piece, 0, _))
    out.toByteArray
  }

  @Test def `what Spark's codec wrote is read in pieces of any size`(): Unit = {
    val reader = new Lz4Reader
    for (blockSize <- Seq("1k", "32k", "1m"); most <- Seq(1, 100, 40000, 3000000)) {
      val parts = Seq.fill(random.nextInt(4)) {
        bytes(random.nextInt(if (most == 1) 3000 else 200000), 1 + random.nextInt(256))
      }
      val encoded = new RowReaderSuite.Pieces(written(blockSize, parts), random)
      val read = readAll(reader(encoded), most)
      assertArrayEquals(parts.flatten.toArray, read, s"seed $seed, $blockSize, $most")
    }
  }

  @Test def `single bytes are read, and none at the end`(): Unit = {
    val in = new Lz4Reader().apply(new ByteArrayInputStream(written("1k", Seq(Array[Byte](-1, 7)))))
    assertEquals(0, in.read(new Array[Byte](1), 0, 0))
    assertEquals(Seq(255, 7, -1, -1), Seq.fill(4)(in.read()))
  }

  @Test def `a stream that was cut is an error wherever a block does not end there`(): Unit = {
    val parts = Seq(bytes(2500, 4), bytes(700, 256))
    val whole = written("1k", parts)
    val good = (0 to whole.length).filter { end =>
      Try(readAll(new Lz4Reader().apply(new ByteArrayInputStream(whole, 0, end)), 5000)) match {
        case Success(read) =>
          assertTrue(parts.flatten.startsWith(read.toSeq), s"seed $seed, cut at $end")
          true
        case Failure(_: IOException) => false
        case Failure(other) => throw other
      }
    }
    // Four blocks, and the empty ones at the ends of both streams.
    assertEquals(7, good.size, s"seed $seed: $good")
  }

  /** Spark fetches a block again after an IOException, and after no other one. */
  @Test def `damaged bytes are an IOException, or read as they were`(): Unit = {
    val parts = Seq(bytes(1500, 4), bytes(600, 256))
    val whole = written("1k", parts)
    val numbers = Lz4Blocks.numbersIn(whole)
    val heads = Iterator
      .iterate(0)(at => at + Lz4Blocks.HeadBytes + numbers.getInt(at + Lz4Blocks.PackedBytesAt))
      .takeWhile(_ < whole.length)
      .toSeq
    // Three blocks, and the ends of both streams.
    assertEquals(5, heads.size)
    val inHeads = heads.flatMap(head => head until head + Lz4Blocks.HeadBytes).toSet
    var missed = Set.empty[(Int, Int)]
    for (at <- whole.indices; bit <- 0 until 8) {
      val damaged = whole.clone()
      damaged(at) = (damaged(at) ^ (1 << bit)).toByte
      Try(readAll(new Lz4Reader().apply(new ByteArrayInputStream(damaged)), 5000)) match {
        case Success(read) =>
          assertArrayEquals(parts.flatten.toArray, read, s"seed $seed: bit $bit of byte $at")
          if (inHeads(at)) missed += at -> bit
        case Failure(_: IOException) =>
        case Failure(other) => throw other
      }
    }
    // Four bits of a head say how large a block may be. (Other packed bytes may mean the same.)
    val free = for (head <- heads; bit <- 0 until 4) yield (head + Lz4Blocks.TokenAt, bit)
    assertEquals(free.toSet, missed, s"seed $seed")
  }

  @Test def `a block that was damaged does not change the next stream`(): Unit = {
    val reader = new Lz4Reader
    val part = bytes(100000, 256)
    val whole = written("32k", Seq(part))
    val damaged = whole.clone()
    damaged(40000) = (damaged(40000) ^ 1).toByte
    assertThrows(
      classOf[IOException],
      () => { readAll(reader(new ByteArrayInputStream(damaged)), 50000); () })
    assertArrayEquals(part, readAll(reader(new ByteArrayInputStream(whole)), 50000))
  }

  @Test def `other codecs are left to Spark`(): Unit = {
    def areUsed(settings: (String, String)*): Boolean =
      Lz4Blocks.areUsed(new SparkConf(false).setAll(settings))
    assertTrue(areUsed())
    assertTrue(areUsed("spark.io.compression.codec" -> "lz4"))
    assertFalse(areUsed("spark.io.compression.codec" -> "zstd"))
    assertFalse(areUsed("spark.io.compression.codec" -> classOf[OwnCodec].getName))
    assertFalse(areUsed("spark.shuffle.compress" -> "false"))
  }
}

/** A codec of the user, whose bytes may differ. */
final class OwnCodec(conf: SparkConf) extends LZ4CompressionCodec(conf)
