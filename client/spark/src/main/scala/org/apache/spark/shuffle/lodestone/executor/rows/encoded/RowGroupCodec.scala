// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import com.github.luben.zstd.{Zstd, ZstdCompressCtx, ZstdDecompressCtx, ZstdException}

import org.apache.spark.shuffle.lodestone.executor.rows.{BrokenRowsException, Lz4Blocks}

/** Compresses the bytes of a row group as a whole. */
private[encoded] trait RowGroupCodec extends AutoCloseable {
  def id: Int
  def mostBytes(plain: Int): Int

  /** Returns the number of bytes that were written. */
  def compress(plain: Array[Byte], length: Int, packed: Array[Byte], at: Int): Int

  /** Returns the number of bytes that were written, or -1, or throws, if they are damaged. */
  def decompress(
      packed: Array[Byte],
      at: Int,
      length: Int,
      plain: Array[Byte],
      plainLength: Int): Int
}

private[encoded] object RowGroupCodec {
  val NoneId = 0
  val Lz4Id = 1
  val ZstdId = 2

  final class Lz4Codec extends RowGroupCodec {
    private[this] val compressor = Lz4Blocks.Lz4.fastCompressor()
    private[this] val decompressor = Lz4Blocks.Lz4.safeDecompressor()

    override def id: Int = Lz4Id
    override def mostBytes(plain: Int): Int = compressor.maxCompressedLength(plain)

    override def compress(plain: Array[Byte], length: Int, packed: Array[Byte], at: Int): Int =
      compressor.compress(plain, 0, length, packed, at)

    override def decompress(
        packed: Array[Byte],
        at: Int,
        length: Int,
        plain: Array[Byte],
        plainLength: Int): Int =
      Lz4Blocks.unpack(decompressor, packed, at, length, plain, 0, plainLength)

    override def close(): Unit = ()
  }

  /**
   * Makes what it uses, and no more. A task may end, and close it, while another thread still reads
   * for the task: zstd-jni throws then.
   */
  final class ZstdCodec(level: Int) extends RowGroupCodec {
    private[this] lazy val compressor = kept(new ZstdCompressCtx().setLevel(level))
    private[this] lazy val decompressor = kept(new ZstdDecompressCtx())
    private[this] var used = List.empty[AutoCloseable]
    private[this] var isClosed = false

    private def kept[T <: AutoCloseable](made: T): T = {
      used ::= made
      made
    }

    override def id: Int = ZstdId
    override def mostBytes(plain: Int): Int = Zstd.compressBound(plain.toLong).toInt

    override def compress(plain: Array[Byte], length: Int, packed: Array[Byte], at: Int): Int =
      whileOpen(compressor.compressByteArray(packed, at, packed.length - at, plain, 0, length))

    override def decompress(
        packed: Array[Byte],
        at: Int,
        length: Int,
        plain: Array[Byte],
        plainLength: Int): Int =
      try whileOpen(decompressor.decompressByteArray(plain, 0, plainLength, packed, at, length))
      catch {
        case failure: ZstdException => throw new BrokenRowsException(s"zstd: ${failure.getMessage}")
      }

    private def whileOpen(work: => Int): Int = synchronized {
      if (isClosed) throw new IllegalStateException("the task is over")
      work
    }

    override def close(): Unit = synchronized {
      isClosed = true
      used.foreach(_.close())
      used = Nil
    }
  }
}
