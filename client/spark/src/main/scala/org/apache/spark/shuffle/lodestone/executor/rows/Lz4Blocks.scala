// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{InputStream, IOException}
import java.nio.{ByteBuffer, ByteOrder}

import net.jpountz.lz4.{LZ4Exception, LZ4Factory, LZ4SafeDecompressor}
import net.jpountz.xxhash.XXHashFactory

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.io.{CompressionCodec, LZ4CompressionCodec}

/** The format of lz4-java's `LZ4BlockOutputStream`: blocks of a head and packed or raw bytes. */
private[executor] object Lz4Blocks {
  val HeadBytes: Int = 8 + 1 + 3 * 4

  /** `LZ4Block`, read as a number. */
  val Magic = 0x6b636f6c42345a4cL
  val TokenAt = 8
  val PackedBytesAt = 9
  val RawBytesAt = 13
  val ChecksumAt = 17
  val MethodRaw = 0x10
  val MethodLz4 = 0x20

  /** The low half of the token: the logarithm of the block size, from 1 KiB on. */
  val BaseLevel = 10

  /** Its JNI library is looked for once, if LZ4 is used: that takes long if there is none. */
  lazy val Lz4: LZ4Factory = LZ4Factory.fastestInstance()
  private lazy val hash = XXHashFactory.fastestInstance().hash32()
  private val Seed = 0x9747b28c

  /** True if Spark compresses serialized records with its own LZ4 codec. */
  def areUsed(conf: SparkConf): Boolean =
    conf.get(config.SHUFFLE_COMPRESS) &&
      CompressionCodec.createCodec(conf).getClass == classOf[LZ4CompressionCodec]

  def numbersIn(bytes: Array[Byte]): ByteBuffer =
    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)

  /** Returns the number of raw bytes, or -1 if the packed ones are damaged. */
  def unpack(
      decompressor: LZ4SafeDecompressor,
      packed: Array[Byte],
      start: Int,
      length: Int,
      raw: Array[Byte],
      offset: Int,
      most: Int): Int =
    try decompressor.decompress(packed, start, length, raw, offset, most)
    // The decompressor in Java may read past the end of damaged bytes.
    catch { case _: LZ4Exception | _: IndexOutOfBoundsException => -1 }

  /** The checksum of raw bytes, which has 28 bits. */
  def checksum(raw: Array[Byte], start: Int, length: Int): Int =
    hash.hash(raw, start, length, Seed) & 0xfffffff
}

/**
 * Opens one stream of LZ4 blocks after another. Spark's codec makes buffers and a native checksum
 * for each stream, copies each byte once more, reads a file twice for each block, and up to Spark
 * 4.1 has lz4-java's slower decompressor.
 */
private[executor] final class Lz4Reader extends (InputStream => InputStream) {
  import Lz4Blocks._

  private val decompressor = Lz4.safeDecompressor()

  /** Grows to a block and the next head. More at a time would be copied within it. */
  private var ahead = numbersIn(new Array[Byte](8 * 1024))

  /** The last block, if it is larger than what was asked for. */
  private var raw = Array.emptyByteArray

  /** The caller must have read the last stream to its end. */
  override def apply(in: InputStream): InputStream = new Stream(in)

  private final class Stream(in: InputStream) extends InputStream {
    private var at = 0
    private var end = 0
    private var rawAt = 0
    private var rawEnd = 0
    private val one = new Array[Byte](1)

    override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

    override def read(target: Array[Byte], offset: Int, length: Int): Int = {
      val size = if (rawAt < rawEnd || length == 0) 0 else nextSize()
      if (size < 0) -1
      else if (size > 0 && size <= length) decode(target, offset, size)
      else {
        if (size > 0) {
          if (raw.length < size) raw = new Array[Byte](size)
          rawEnd = decode(raw, 0, size)
          rawAt = 0
        }
        val some = math.min(length, rawEnd - rawAt)
        System.arraycopy(raw, rawAt, target, offset, some)
        rawAt += some
        some
      }
    }

    override def available(): Int = rawEnd - rawAt

    override def close(): Unit = in.close()

    /** Returns -1 at the end. An empty block ends a part of the stream. */
    private def nextSize(): Int = {
      var size = 0
      while (size == 0 && has(1)) {
        if (!has(HeadBytes)) fail()
        size = ahead.getInt(at + RawBytesAt)
        val most = 1 << BaseLevel + (ahead.get(at + TokenAt) & 0xf)
        val packedBytes = ahead.getInt(at + PackedBytesAt)
        val isPacked = packedBytes >= 0 && packedBytes <= size && size <= most
        val isKnown = ahead.getLong(at) == Magic && (method == MethodLz4 || method == MethodRaw)
        if (!isKnown || !isPacked || (packedBytes == 0) != (size == 0)) fail()
        if (!has(HeadBytes + packedBytes)) fail()
        if (size == 0) {
          if (ahead.getInt(at + ChecksumAt) != 0) fail()
          at += HeadBytes
        }
      }
      if (size == 0) -1 else size
    }

    private def method: Int = ahead.get(at + TokenAt) & 0xf0

    private def decode(target: Array[Byte], offset: Int, size: Int): Int = {
      val start = at + HeadBytes
      val packedBytes = ahead.getInt(at + PackedBytesAt)
      val decoded = if (method == MethodLz4) {
        unpack(decompressor, ahead.array, start, packedBytes, target, offset, size)
      } else {
        System.arraycopy(ahead.array, start, target, offset, packedBytes)
        packedBytes
      }
      val check = ahead.getInt(at + ChecksumAt)
      if (decoded != size || checksum(target, offset, size) != check) fail()
      at = start + packedBytes
      size
    }

    /** Reads until there are so many bytes. Returns false if the stream ends before. */
    private def has(bytes: Int): Boolean = {
      if (end - at < bytes) {
        val read = ahead.array
        val room = bytes + HeadBytes
        if (read.length < room) ahead = numbersIn(new Array[Byte](room))
        System.arraycopy(read, at, ahead.array, 0, end - at)
        end -= at
        at = 0
        var count = 0
        while (end < bytes && count >= 0) {
          count = in.read(ahead.array, end, ahead.capacity - end)
          end += math.max(count, 0)
        }
      }
      end - at >= bytes
    }

    /** Spark then reads an original again, or runs its map again, if it detects corruption. */
    private def fail(): Nothing = throw new IOException("a block of LZ4 is corrupted, or cut off")
  }
}
