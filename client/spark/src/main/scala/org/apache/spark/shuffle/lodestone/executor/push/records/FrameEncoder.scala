// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.OutputStream

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.serializer.SerializerManager
import org.apache.spark.shuffle.lodestone.executor.rows.{Lz4Blocks, RecordCopy, UnclosedStream}
import org.apache.spark.storage.ShuffleBlockId
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.Utils

/**
 * Encodes serialized records as Spark's readers expect them. It writes each block to the stream in
 * large pieces: that takes few calls.
 */
private[push] abstract class FrameEncoder(pieceBytes: Int = 32 * 1024) extends BlockEncoder {
  private val piece = new Array[Byte](pieceBytes)
  private var filled = 0

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

private[push] object FrameEncoder {

  /**
   * Spark makes new streams for each block: some 65 KB of buffers in the case of LZ4. That is the
   * largest cost of small blocks. If the codec is Spark's LZ4, the encoder reuses everything.
   */
  def apply(conf: SparkConf, streams: SerializerManager): FrameEncoder =
    if (Lz4Blocks.areUsed(conf))
      new Lz4Encoder(conf.get(config.IO_COMPRESSION_LZ4_BLOCKSIZE).toInt)
    else new StreamEncoder(streams)
}

/** Encodes with the streams that Spark makes: any codec or none. */
private[records] final class StreamEncoder(streams: SerializerManager) extends FrameEncoder() {
  private var target: UnclosedStream = _
  private var inner: OutputStream = _

  override protected def begin(block: ShuffleBlockId, out: OutputStream): Unit = {
    target = new UnclosedStream(out)
    inner = streams.wrapForCompression(block, target)
  }

  override protected def encode(bytes: Array[Byte], length: Int): Unit =
    inner.write(bytes, 0, length)

  override def close(): Unit = {
    super.close()
    inner.close()
    inner = null
  }

  override def abandon(): Unit = if (inner != null) {
    target.drop()
    Utils.tryLogNonFatalError(inner.close())
    inner = null
  }
}

/**
 * Encodes in the format of lz4-java's `LZ4BlockOutputStream`, which Spark's LZ4 codec reads: blocks
 * of a head and compressed bytes, or raw bytes if those are fewer. (The empty last block is
 * missing: readers that allow concatenated streams, as Spark's do, look for the end of the bytes.)
 */
private[records] final class Lz4Encoder(blockBytes: Int) extends FrameEncoder(blockBytes) {
  import Lz4Blocks._

  private val compressor = Lz4.fastCompressor()
  private val packed = new Array[Byte](HeadBytes + compressor.maxCompressedLength(blockBytes))
  private val head = numbersIn(packed).putLong(0, Magic)
  private val level = math.max(0, 32 - Integer.numberOfLeadingZeros(blockBytes - 1) - BaseLevel)
  private var out: OutputStream = _

  override protected def begin(block: ShuffleBlockId, out: OutputStream): Unit = this.out = out

  override protected def encode(raw: Array[Byte], length: Int): Unit = {
    val packedBytes = compressor.compress(raw, 0, length, packed, HeadBytes)
    head.putInt(RawBytesAt, length).putInt(ChecksumAt, checksum(raw, 0, length))
    if (packedBytes < length) {
      head.put(TokenAt, (MethodLz4 | level).toByte).putInt(PackedBytesAt, packedBytes)
      out.write(packed, 0, HeadBytes + packedBytes)
    } else {
      head.put(TokenAt, (MethodRaw | level).toByte).putInt(PackedBytesAt, length)
      out.write(packed, 0, HeadBytes)
      out.write(raw, 0, length)
    }
  }
}
