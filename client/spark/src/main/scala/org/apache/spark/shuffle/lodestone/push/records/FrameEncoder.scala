// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.io.OutputStream

import net.jpountz.lz4.LZ4Factory
import net.jpountz.xxhash.XXHashFactory

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.io.{CompressionCodec, LZ4CompressionCodec}
import org.apache.spark.serializer.SerializerManager
import org.apache.spark.storage.ShuffleBlockId
import org.apache.spark.unsafe.Platform

/**
 * Makes the bytes of one block, as Spark's readers expect them, of serialized records. One encoder makes
 * the blocks of a whole map task, one after another.
 */
private[push] trait FrameEncoder extends RecordSink {

  /** The records that follow are those of this block, and its bytes go there. */
  def open(block: ShuffleBlockId, out: OutputStream): Unit

  /** All of the block has been given to `out`, which stays open. */
  def close(): Unit
}

private[push] object FrameEncoder {

  /**
   * Spark makes new streams for each block, which is what small blocks cost most: some 65 KB of buffers
   * in the case of LZ4. Where the codec is Spark's LZ4, or none, nothing is made anew.
   */
  def apply(conf: SparkConf, streams: SerializerManager): FrameEncoder =
    if (streams.encryptionEnabled) {
      new StreamEncoder(streams)
    } else if (!conf.get(config.SHUFFLE_COMPRESS)) {
      new PlainEncoder
    } else if (CompressionCodec.createCodec(conf).getClass == classOf[LZ4CompressionCodec]) {
      new Lz4Encoder(conf.get(config.IO_COMPRESSION_LZ4_BLOCKSIZE).toInt)
    } else {
      new StreamEncoder(streams)
    }

  /** What is copied at once, from where Spark has it to where a stream can take it. */
  private[records] val CopyBytes = 32 * 1024
}

/** Any codec, and encryption: with the streams that Spark makes. */
private[records] final class StreamEncoder(streams: SerializerManager) extends FrameEncoder {
  private val copied = new Array[Byte](FrameEncoder.CopyBytes)
  private var inner: OutputStream = _

  override def open(block: ShuffleBlockId, out: OutputStream): Unit =
    inner = streams.wrapStream(block, new UnclosedStream(out))

  override def record(base: AnyRef, offset: Long, length: Int): Unit = {
    var done = 0
    while (done < length) {
      val now = math.min(copied.length, length - done)
      Platform.copyMemory(base, offset + done, copied, Platform.BYTE_ARRAY_OFFSET, now)
      inner.write(copied, 0, now)
      done += now
    }
  }

  override def close(): Unit = {
    inner.close()
    inner = null
  }
}

/** Other blocks come behind this one: its streams are closed, and not what they write to. */
private[records] final class UnclosedStream(out: OutputStream) extends OutputStream {
  override def write(byte: Int): Unit = out.write(byte)
  override def write(bytes: Array[Byte], start: Int, length: Int): Unit =
    out.write(bytes, start, length)
  override def flush(): Unit = out.flush()
  override def close(): Unit = out.flush()
}

/** Neither compressed nor encrypted. */
private[records] final class PlainEncoder extends FrameEncoder {
  private val copied = new Array[Byte](FrameEncoder.CopyBytes)
  private var out: OutputStream = _
  private var filled = 0

  override def open(block: ShuffleBlockId, out: OutputStream): Unit = this.out = out

  override def record(base: AnyRef, offset: Long, length: Int): Unit = {
    var done = 0
    while (done < length) {
      if (filled == copied.length) flush()
      val now = math.min(copied.length - filled, length - done)
      Platform.copyMemory(base, offset + done, copied, Platform.BYTE_ARRAY_OFFSET + filled, now)
      filled += now
      done += now
    }
  }

  override def close(): Unit = flush()

  private def flush(): Unit = {
    if (filled > 0) out.write(copied, 0, filled)
    filled = 0
  }
}

/**
 * The format of lz4-java's `LZ4BlockOutputStream`, which is what Spark's LZ4 codec reads: blocks of a
 * head and compressed, or if that is not smaller raw, bytes. (Its empty last block is left out: readers
 * that allow for concatenated streams, as Spark's do, look for the end of the bytes.)
 */
private[records] final class Lz4Encoder(blockBytes: Int) extends FrameEncoder {
  import Lz4Encoder._

  private val raw = new Array[Byte](blockBytes)
  private val packed = new Array[Byte](HeadBytes + compressor.maxCompressedLength(blockBytes))
  private val level = math.max(0, 32 - Integer.numberOfLeadingZeros(blockBytes - 1) - BaseLevel)
  private var filled = 0
  private var out: OutputStream = _
  Magic.copyToArray(packed)

  override def open(block: ShuffleBlockId, out: OutputStream): Unit = this.out = out

  override def record(base: AnyRef, offset: Long, length: Int): Unit = {
    var done = 0
    while (done < length) {
      if (filled == raw.length) flush()
      val now = math.min(raw.length - filled, length - done)
      Platform.copyMemory(base, offset + done, raw, Platform.BYTE_ARRAY_OFFSET + filled, now)
      filled += now
      done += now
    }
  }

  override def close(): Unit = {
    if (filled > 0) flush()
    out = null
  }

  private def flush(): Unit = {
    val check = hash.hash(raw, 0, filled, Seed) & CheckMask
    val packedBytes = compressor.compress(raw, 0, filled, packed, HeadBytes)
    if (packedBytes < filled) {
      head(MethodLz4, packedBytes, check)
      out.write(packed, 0, HeadBytes + packedBytes)
    } else {
      head(MethodRaw, filled, check)
      out.write(packed, 0, HeadBytes)
      out.write(raw, 0, filled)
    }
    filled = 0
  }

  private def head(method: Int, packedBytes: Int, check: Int): Unit = {
    packed(Magic.length) = (method | level).toByte
    littleEndian(packedBytes, Magic.length + 1)
    littleEndian(filled, Magic.length + 5)
    littleEndian(check, Magic.length + 9)
  }

  private def littleEndian(value: Int, at: Int): Unit = {
    packed(at) = value.toByte
    packed(at + 1) = (value >>> 8).toByte
    packed(at + 2) = (value >>> 16).toByte
    packed(at + 3) = (value >>> 24).toByte
  }
}

private[records] object Lz4Encoder {
  private val Magic = "LZ4Block".getBytes("US-ASCII")
  private val HeadBytes = Magic.length + 1 + 3 * 4
  private val MethodRaw = 0x10
  private val MethodLz4 = 0x20

  /** The low half of the token: the logarithm of the block size, from 1 KiB on. */
  private val BaseLevel = 10
  private val Seed = 0x9747b28c

  /** lz4-java's checksums have 28 bits. */
  private val CheckMask = 0xfffffff

  private val compressor = LZ4Factory.fastestInstance().fastCompressor()
  private val hash = XXHashFactory.fastestInstance().hash32()
}
