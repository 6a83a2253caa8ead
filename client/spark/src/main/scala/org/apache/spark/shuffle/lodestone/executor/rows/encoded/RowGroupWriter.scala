// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.OutputStream
import java.util.zip.CRC32C

import org.apache.spark.shuffle.lodestone.executor.rows.Lz4Blocks
import org.apache.spark.shuffle.lodestone.plan.{EncodedBytes, SqlRows}
import org.apache.spark.unsafe.Platform

/** Writes rows in groups. It has memory for one of them, whatever the number of partitions is. */
private[encoded] final class RowGroupWriter(
    codec: RowGroupCodec,
    numFields: Int,
    mostBytes: Int = RowGroup.MostBytes) {
  import RowGroupWriter._
  import RowGroupHead._

  private[this] val group = new RowGroup(math.min(mostBytes, RowGroup.MostBytes))
  private[this] val encoder = new RowGroupEncoder
  private[this] val columns = new ByteSink(RowGroup.MostBytes)
  private[this] val checksum = new CRC32C
  private[this] var packed = new Packed(codec)
  private[this] var otherPacked = new Packed(codec)
  private[this] var out: OutputStream = _
  private[this] var preferred = Columns
  private[this] var untilCompared = 0

  private[this] val sample = RowSample.of(codec)
  private[this] var sparksBytesOfBlock = 0.0

  /** The bytes that the rows of the last block would have in Spark's format, estimated. */
  def sparksBytes: Double = sparksBytesOfBlock

  // Sums of all blocks.
  private[this] var rowBytes = 0L
  private[this] var encodedBytes = 0L
  private[this] var compressedBytes = 0L

  def bytes: EncodedBytes = EncodedBytes(rowBytes, encodedBytes, compressedBytes)

  /** Begins a block. Drops what a failed block left behind. */
  def open(out: OutputStream): Unit = {
    group.clear()
    sparksBytesOfBlock = 0
    this.out = out
  }

  /** Adds rows that lie one after another in memory, each with its size before it. */
  def add(base: AnyRef, offset: Long, length: Int): Unit = {
    var done = 0
    while (done < length) {
      val size = Integer.reverseBytes(Platform.getInt(base, offset + done))
      if (!group.hasRoom(size)) flush()
      if (group.hasRoom(size)) group.add(base, offset + done, size)
      else pieces(base, offset + done, SqlRows.HeadBytes + size)
      done += SqlRows.HeadBytes + size
    }
  }

  /** Ends the block. */
  def close(): Unit = flush()

  private def flush(): Unit = if (group.count > 0) {
    if (preferred == Rows && untilCompared > 0) packed.take(Rows, group.bytes, group.size)
    else encode()
    if (untilCompared > 0) untilCompared -= 1
    sampleRows()
    write(group.size)
    group.clear()
  }

  private def encode(): Unit =
    if (encoder.encode(group, numFields, columns) && columns.size <= group.size) {
      packed.take(Columns, columns.bytes, columns.size)
      if (untilCompared == 0 && columns.size > group.size / SurelyLess) compare()
    } else {
      packed.take(Rows, group.bytes, group.size)
      prefer(Rows)
    }

  /** Rows are compressed too, to see which are fewer bytes. The outcome serves for a while. */
  private def compare(): Unit = {
    otherPacked.take(Rows, group.bytes, group.size)
    prefer(if (otherPacked.size < packed.size) Rows else Columns)
    if (preferred == Rows) {
      val rows = otherPacked
      otherPacked = packed
      packed = rows
    }
  }

  private def sampleRows(): Unit =
    if (packed.kind == Rows) {
      sparksBytesOfBlock += packed.size
    } else {
      val due = sample.due(group.size, packed.size)
      if (due > 0) {
        otherPacked.take(Rows, group.bytes, due)
        sample.add(due, otherPacked.size)
      }
      sparksBytesOfBlock += sample.sizeOfGroup
    }

  private def prefer(kind: Int): Unit = {
    preferred = kind
    untilCompared = GroupsBetween
  }

  private def pieces(base: AnyRef, offset: Long, length: Int): Unit = {
    val piece = group.bytes
    var done = 0
    while (done < length) {
      val some = math.min(length - done, piece.length)
      Platform.copyMemory(base, offset + done, piece, ByteSink.address(0), some.toLong)
      packed.take(Piece, piece, some)
      sparksBytesOfBlock += packed.size
      write(some)
      done += some
    }
  }

  private def write(ofRows: Int): Unit = {
    val group = packed.finish(numFields, checksum)
    out.write(group, 0, HeadBytes + packed.size)
    rowBytes += ofRows
    encodedBytes += packed.plainSize
    compressedBytes += HeadBytes + packed.size
  }
}

private[encoded] object RowGroupWriter {
  import RowGroupHead._

  /** Columns of less than a half of the rows' bytes are smaller also when they are compressed. */
  private val SurelyLess = 2
  private val GroupsBetween = 16

  /** The compressed bytes of a row group, behind its head. */
  private final class Packed(codec: RowGroupCodec) {
    private[this] var bytes = new Array[Byte](HeadBytes)
    private[this] var head = Lz4Blocks.numbersIn(bytes)
    private[this] var filled = 0
    private[this] var kindOfGroup = 0
    private[this] var plainBytes = 0

    def size: Int = filled
    def kind: Int = kindOfGroup
    def plainSize: Int = plainBytes

    def take(kind: Int, plain: Array[Byte], length: Int): Unit = {
      val most = HeadBytes + math.max(codec.mostBytes(length), length)
      if (bytes.length < most) {
        bytes = new Array[Byte](most)
        head = Lz4Blocks.numbersIn(bytes)
      }
      kindOfGroup = kind
      plainBytes = length
      filled = codec.compress(plain, length, bytes, HeadBytes)
      var id = codec.id
      if (filled >= length) {
        System.arraycopy(plain, 0, bytes, HeadBytes, length)
        filled = length
        id = RowGroupCodec.NoneId
      }
      head.putShort(0, Magic).put(VersionAt, Version).put(TokenAt, (kind << 4 | id).toByte)
      head.putInt(PlainBytesAt, length).putInt(PackedBytesAt, filled)
      ()
    }

    def finish(numFields: Int, checksum: CRC32C): Array[Byte] = {
      head.putInt(FieldsAt, numFields)
      checksum.reset()
      checksum.update(bytes, 0, ChecksumAt)
      checksum.update(bytes, HeadBytes, filled)
      head.putInt(ChecksumAt, checksum.getValue.toInt)
      bytes
    }
  }
}
