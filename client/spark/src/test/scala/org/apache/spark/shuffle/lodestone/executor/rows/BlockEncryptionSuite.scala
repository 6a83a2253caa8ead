// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream, IOException}

import scala.util.Random

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.serializer.{JavaSerializer, SerializerManager}

final class BlockEncryptionSuite {
  private val seed = System.nanoTime()
  private val random = new Random(seed)

  private val encryption = {
    val conf = new SparkConf(false).set("spark.io.encryption.enabled", "true")
    val key = Some(Array.fill(16)(random.nextInt().toByte))
    new BlockEncryption(new SerializerManager(new JavaSerializer(conf), conf, key))
  }

  private def bytes(length: Int): Array[Byte] = {
    val made = new Array[Byte](length)
    random.nextBytes(made)
    made
  }

  private def encrypted(plain: Array[Byte]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    encryption.writing(out)(_.write(plain))
    out.toByteArray
  }

  /** Reads in pieces of any size. */
  private def read(in: InputStream): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val piece = new Array[Byte](9000)
    var count = 0
    while (count >= 0) {
      out.write(piece, 0, count)
      count = in.read(piece, 0, 1 + random.nextInt(piece.length))
    }
    in.close()
    out.toByteArray
  }

  @Test def `segments in a row are decrypted one by one`(): Unit =
    for (_ <- 0 until 30) {
      val plain = Seq.fill(random.nextInt(6))(bytes(1 + random.nextInt(20000)))
      val segments = plain.map(encrypted)
      val chunk = new ByteArrayInputStream(segments.flatten.toArray)
      val found = read(encryption.reading(chunk, segments.iterator.map(_.length)))
      assertArrayEquals(plain.flatten.toArray, found, s"seed $seed")
    }

  @Test def `no two segments of the same bytes are the same`(): Unit = {
    val plain = bytes(100)
    assertFalse(encrypted(plain).sameElements(encrypted(plain)))
    assertFalse(encrypted(plain).containsSlice(plain.take(8)))
  }

  @Test def `a segment that ends within its initialisation vector is an error`(): Unit = {
    val cut = encrypted(bytes(100)).take(7)
    val in = encryption.reading(new ByteArrayInputStream(cut), Iterator(116))
    assertThrows(classOf[IOException], () => { read(in); () })
    ()
  }
}
