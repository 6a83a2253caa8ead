// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, OutputStream}

import scala.util.Random

import org.junit.jupiter.api.{Tag, Test}
import org.junit.jupiter.api.Assertions._

import org.apache.spark.SparkConf
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.serializer.{JavaSerializer, SerializerManager}
import org.apache.spark.shuffle.lodestone.executor.rows.BlockEncryption
import org.apache.spark.storage.ShuffleBlockId
import org.apache.spark.unsafe.Platform

/** Spark's own streams read the output of the encoders. */
@Tag("seldom")
final class FrameEncoderSuite {
  private val seed = System.nanoTime()
  private val random = new Random(seed)
  private val block = ShuffleBlockId(1, 2, 3)

  private def conf(settings: (String, String)*): SparkConf = new SparkConf(false).setAll(settings)

  private def streams(conf: SparkConf): SerializerManager =
    new SerializerManager(new JavaSerializer(conf), conf)

  /** Records that compress well, badly, or not at all. */
  private def records(): Seq[Array[Byte]] = {
    val kinds = 1 + random.nextInt(256)
    Seq.fill(random.nextInt(40)) {
      val length = random.nextInt(4) match {
        case 0 => 1
        case 1 => random.nextInt(200)
        case 2 => random.nextInt(5000)
        case _ => random.nextInt(100000)
      }
      val record = new Array[Byte](length)
      random.nextBytes(record)
      record.indices.foreach(i => record(i) = ((record(i) & 0xff) % kinds).toByte)
      record
    }
  }

  /** All bytes, one record after another. */
  private def joined(records: Seq[Array[Byte]]): Array[Byte] = {
    val all = new ByteArrayOutputStream
    records.foreach(record => all.write(record, 0, record.length))
    all.toByteArray
  }

  private def write(encoder: FrameEncoder, records: Seq[Array[Byte]], to: OutputStream) = {
    encoder.open(block, to)
    records.foreach(r => encoder.records(r, Platform.BYTE_ARRAY_OFFSET.toLong, r.length))
    encoder.close()
  }

  private def read(conf: SparkConf, bytes: Array[Byte]): Array[Byte] = {
    val in = streams(conf).wrapStream(block, new ByteArrayInputStream(bytes))
    val out = new ByteArrayOutputStream
    val buffer = new Array[Byte](1000)
    Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).foreach(out.write(buffer, 0, _))
    out.toByteArray
  }

  /** Each makes another encoder, or one with another size of its pieces. */
  private val settings: Seq[(String, String)] =
    Seq("lz4", "zstd", "snappy", "lzf").map("spark.io.compression.codec" -> _) ++
      Seq("1k", "5k", "32k", "1m").map("spark.io.compression.lz4.blockSize" -> _) :+
      ("spark.shuffle.compress" -> "false")

  @Test def `the rest of a failed block is not in the next one`(): Unit =
    for (setting <- settings; isAbandoned <- Seq(false, true)) {
      val now = conf(setting)
      val encoder = FrameEncoder(now, streams(now))
      val failed = Array.fill[Byte](100)(1)
      val dropped = new ByteArrayOutputStream
      encoder.open(block, dropped)
      encoder.records(failed, Platform.BYTE_ARRAY_OFFSET.toLong, failed.length)
      val before = dropped.size
      if (isAbandoned) {
        encoder.abandon()
        assertEquals(before, dropped.size, "an abandoned block, whose target may be closed, grew")
      }
      val next = Array.fill[Byte](200)(2)
      val bytes = new ByteArrayOutputStream
      write(encoder, Seq(next), bytes)
      assertArrayEquals(next, read(now, bytes.toByteArray), s"$setting")
    }

  @Test def `blocks of each codec are read one by one and one after another`(): Unit = {
    for (setting <- settings; _ <- 0 until 20) {
      val now = conf(setting)
      val encoder = FrameEncoder(now, streams(now))
      // A block without bytes is no block.
      val blocks = Seq.fill(1 + random.nextInt(4))(records() :+ Array[Byte](7))
      val all = new ByteArrayOutputStream
      blocks.foreach { records =>
        val one = new ByteArrayOutputStream
        write(encoder, records, one)
        assertArrayEquals(joined(records), read(now, one.toByteArray), s"seed $seed, $setting")
        all.write(one.toByteArray)
      }
      val expected = joined(blocks.flatten)
      assertArrayEquals(expected, read(now, all.toByteArray), s"seed $seed, $setting, in a row")
    }
  }

  @Test def `a block is no larger than Spark makes it`(): Unit = {
    val now = conf()
    val encoder = FrameEncoder(now, streams(now))
    assertTrue(encoder.isInstanceOf[Lz4Encoder], encoder.getClass.getName)
    for (_ <- 0 until 50) {
      val written = records()
      val ours = new ByteArrayOutputStream
      write(encoder, written, ours)
      val theirs = new ByteArrayOutputStream
      val stream = streams(now).wrapStream(block, theirs)
      written.foreach(stream.write)
      stream.close()
      assertTrue(ours.size() <= theirs.size(), s"seed $seed: ${ours.size()} and ${theirs.size()}")
    }
  }

  @Test def `an encrypted block is a stream of its own`(): Unit = {
    val now = conf("spark.io.encryption.enabled" -> "true")
    val key = Array.fill(16)(random.nextInt().toByte)
    val encrypting = new SerializerManager(new JavaSerializer(now), now, Some(key))
    val encoder = FrameEncoder(now, encrypting)
    for (_ <- 0 until 3) {
      val written = records() :+ JavaUtils.stringToBytes("not empty").array()
      val bytes = new ByteArrayOutputStream
      new BlockEncryption(encrypting).writing(bytes)(write(encoder, written, _))
      val in = encrypting.wrapStream(block, new ByteArrayInputStream(bytes.toByteArray))
      assertArrayEquals(joined(written), org.apache.commons.io.IOUtils.toByteArray(in))
    }
  }
}
