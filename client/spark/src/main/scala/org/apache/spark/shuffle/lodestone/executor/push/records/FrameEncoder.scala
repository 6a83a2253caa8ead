// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.OutputStream

import net.jpountz.lz4.LZ4Factory
import net.jpountz.xxhash.XXHashFactory

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.io.{CompressionCodec, LZ4CompressionCodec}
import org.apache.spark.serializer.SerializerManager
import org.apache.spark.storage.ShuffleBlockId
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.Utils

/**
 * Encodes serialized records to blocks as Spark's readers expect them. One encoder makes all blocks
 * of a map task, one after another.
 */
private[push] trait FrameEncoder extends RecordSink {

  /** Begins a block. Its bytes go to `out`. */
  def open(block: ShuffleBlockId, out: OutputStream): Unit

  /** Ends the block. `out` stays open. */
  def close(): Unit

  /** Gives the block up, and releases memory that a codec may hold. */
  def abandon(): Unit
}

private[push] object FrameEncoder {

  /**
   * Spark makes new streams for each block: some 65 KB of buffers in the case of LZ4. That is the
   * largest cost of small blocks. If the codec is Spark's LZ4, or none, these encoders reuse
   * everything.
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
}

/** Collects the records of a block, and encodes them piece by piece. */
private[records] abstract class PieceEncoder(pieceBytes: Int) extends FrameEncoder {
  private val piece = new Array[Byte](pieceBytes)
  private var filled = 0

  /** Drops what a failed block left behind. */
  final override def open(block: ShuffleBlockId, out: OutputStream): Unit = {
    filled = 0
    begin(block, out)
  }

  protected def begin(block: ShuffleBlockId, out: OutputStream): Unit

  /** Encodes the next piece: the first `length` of these bytes. */
  protected def encode(bytes: Array[Byte], length: Int): Unit

  override def records(base: AnyRef, offset: Long, length: Int): Unit = {
    var done = 0
    while (done < length) {
      if (filled == piece.length) flush()
      val now = math.min(piece.length - filled, length - done)
      RecordCopy(base, offset + done, piece, Platform.BYTE_ARRAY_OFFSET.toLong + filled, now)
      filled += now
      done += now
    }
  }

  override def close(): Unit = flush()

  override def abandon(): Unit = ()

  private def flush(): Unit = {
    if (filled > 0) encode(piece, filled)
    filled = 0
  }
}

private[records] object PieceEncoder {

  /** So many bytes that a stream is rarely called. */
  val Bytes: Int = 32 * 1024
}

/** Encodes with the streams that Spark makes: any codec, and encryption. */
private[records] final class StreamEncoder(streams: SerializerManager)
    extends PieceEncoder(PieceEncoder.Bytes) {
  private var inner: OutputStream = _

  override protected def begin(block: ShuffleBlockId, out: OutputStream): Unit =
    inner = streams.wrapStream(block, new UnclosedStream(out))

  override protected def encode(bytes: Array[Byte], length: Int): Unit =
    inner.write(bytes, 0, length)

  override def close(): Unit = {
    super.close()
    inner.close()
    inner = null
  }

  override def abandon(): Unit = if (inner != null) {
    Utils.tryLogNonFatalError(inner.close())
    inner = null
  }
}

/** Closes the streams of a block, but not their target, which other blocks follow. */
private[records] final class UnclosedStream(out: OutputStream) extends OutputStream {
  override def write(byte: Int): Unit = out.write(byte)
  override def write(bytes: Array[Byte], start: Int, length: Int): Unit =
    out.write(bytes, start, length)
  override def flush(): Unit = out.flush()
  override def close(): Unit = out.flush()
}

private[records] final class PlainEncoder extends PieceEncoder(PieceEncoder.Bytes) {
  private var out: OutputStream = _

  override protected def begin(block: ShuffleBlockId, out: OutputStream): Unit = this.out = out

  override protected def encode(bytes: Array[Byte], length: Int): Unit = out.write(bytes, 0, length)
}

/**
 * Encodes in the format of lz4-java's `LZ4BlockOutputStream`, which Spark's LZ4 codec reads: blocks
 * of a head and compressed bytes, or raw bytes if those are fewer. (The empty last block is
 * missing: readers that allow concatenated streams, as Spark's do, look for the end of the bytes.)
 */
private[records] final class Lz4Encoder(blockBytes: Int) extends PieceEncoder(blockBytes) {
  import Lz4Encoder._

  private val packed = new Array[Byte](HeadBytes + compressor.maxCompressedLength(blockBytes))
  private val level = math.max(0, 32 - Integer.numberOfLeadingZeros(blockBytes - 1) - BaseLevel)
  private var out: OutputStream = _
  Magic.copyToArray(packed)

  override protected def begin(block: ShuffleBlockId, out: OutputStream): Unit = this.out = out

  override protected def encode(raw: Array[Byte], length: Int): Unit = {
    val check = hash.hash(raw, 0, length, Seed) & CheckMask
    val packedBytes = compressor.compress(raw, 0, length, packed, HeadBytes)
    if (packedBytes < length) {
      head(MethodLz4, packedBytes, length, check)
      out.write(packed, 0, HeadBytes + packedBytes)
    } else {
      head(MethodRaw, length, length, check)
      out.write(packed, 0, HeadBytes)
      out.write(raw, 0, length)
    }
  }

  private def head(method: Int, packedBytes: Int, rawBytes: Int, check: Int): Unit = {
    packed(Magic.length) = (method | level).toByte
    littleEndian(packedBytes, Magic.length + 1)
    littleEndian(rawBytes, Magic.length + 5)
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
