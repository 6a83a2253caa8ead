// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.util.zip.{Adler32, CRC32, CRC32C, Checksum}

/** The bytes of blocks, which follow from their names. */
private[level0] object Content {

  /** The blocks of this partition are large: a few of them fill a chunk. */
  val LargeReduce = 3

  /** The first byte says which map it is, so that whole blocks are recognized in a chunk. */
  def ofPush(push: Push): Array[Byte] = {
    val bytes = random(lengthOf(push), Seq(push.shuffle, push.map, push.reduce, push.variant))
    if (bytes.nonEmpty) bytes(0) = push.map.toByte
    bytes
  }

  /** Two attempts of a map may have other bytes for a partition, and more. Some have none. */
  def lengthOf(push: Push): Int = {
    val dice = seed(Seq(push.shuffle, push.map, push.reduce, 77))
    val shape = Math.floorMod(dice, 40L)
    if (push.reduce == LargeReduce) 400000 + Math.floorMod(dice, 500000L).toInt
    else if (shape == 0) 0
    else if (shape < 8) 1 + Math.floorMod(dice >>> 8, 12L).toInt
    else 12 + Math.floorMod(dice >>> 8, 1500L).toInt + push.variant
  }

  def ofOutput(write: WriteOutput): IndexedSeq[Array[Byte]] =
    write.lengths.zipWithIndex.map { case (length, reduce) =>
      random(length, Seq(write.exec, write.shuffle, write.map.toInt, reduce, write.lengths.sum))
    }.toIndexedSeq

  /** The checksums that the writer keeps. */
  def sumsOf(write: WriteOutput): IndexedSeq[Long] =
    ofOutput(write).map(checksum(write.algorithm, _) + write.wrongBy)

  def ofRdd(write: WriteRdd): Array[Byte] =
    random(write.length, Seq(write.exec, write.rdd, write.split, write.length))

  def checksum(algorithm: String, bytes: Array[Byte]): Long = {
    val sum: Checksum = algorithm match {
      case "CRC32" => new CRC32
      case "CRC32C" => new CRC32C
      case _ => new Adler32
    }
    sum.update(bytes, 0, bytes.length)
    sum.getValue
  }

  private def random(length: Int, of: Seq[Int]): Array[Byte] = {
    val bytes = new Array[Byte](length)
    var state = seed(of) | 1L
    var at = 0
    while (at < length) {
      state ^= state << 13
      state ^= state >>> 7
      state ^= state << 17
      val end = math.min(at + java.lang.Long.BYTES, length)
      var left = state
      while (at < end) {
        bytes(at) = left.toByte
        left >>>= java.lang.Byte.SIZE
        at += 1
      }
    }
    bytes
  }

  private def seed(of: Seq[Int]): Long =
    of.foldLeft(0x9e3779b97f4a7c15L) { (mixed, one) =>
      val next = (mixed ^ one) * 0xbf58476d1ce4e5b9L
      next ^ (next >>> 29)
    }
}
