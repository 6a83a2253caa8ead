// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream
import java.util.zip.CRC32C

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.storage.{BlockId, ShuffleBlockChunkId}

/**
 * The bytes of a block, after the checksum of all of them has proved right. Of a block that is
 * larger than [[ChecksummedBlock.MostBytes]] the rest is checked at its end.
 *
 * @param written
 *   the CRC-32C that the map task reported
 */
private[fetch] final class ChecksummedBlock(in: InputStream, written: Long) extends InputStream {
  import ChecksummedBlock._

  private val crc = new CRC32C
  private val pieces = mutable.Queue.empty[Array[Byte]]
  private val one = new Array[Byte](1)
  private var readOfPiece = 0
  private var isChecked = false

  readAhead()

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (pieces.nonEmpty) {
      val piece = pieces.head
      val some = math.min(length, piece.length - readOfPiece)
      System.arraycopy(piece, readOfPiece, target, offset, some)
      readOfPiece += some
      if (readOfPiece == piece.length) {
        pieces.dequeue()
        readOfPiece = 0
      }
      some
    } else if (isChecked) {
      -1
    } else {
      val some = in.read(target, offset, length)
      if (some < 0) check() else crc.update(target, offset, some)
      some
    }

  override def close(): Unit = in.close()

  private def readAhead(): Unit = {
    // One byte more, to see the end of a block of just so many bytes.
    var room = MostBytes + 1
    var size = FirstPieceBytes
    while (room > 0 && !isChecked) {
      val piece = in.readNBytes(math.min(size, room))
      crc.update(piece, 0, piece.length)
      if (piece.length > 0) pieces += piece
      if (piece.length < math.min(size, room)) check()
      room -= piece.length
      size = math.min(2 * size, MostPieceBytes)
    }
  }

  private def check(): Unit = {
    isChecked = true
    if (crc.getValue != written) {
      throw new BrokenRowsException(
        f"its bytes have the checksum ${crc.getValue}%08x, and its map task wrote $written%08x")
    }
  }
}

private[fetch] object ChecksummedBlock {

  /** Spark holds as much of a block if it looks for damage before the first row. */
  val MostBytes: Int = 16 << 20

  /** Returns the bytes of a stream. Chunks were checked when they arrived. */
  def of(id: BlockId, stream: InputStream, check: RecordsCheck): InputStream = id match {
    case _: ShuffleBlockChunkId => stream
    case _ =>
      val written = check.written(id)
      if (written == BlockRecords.NotCounted) stream else new ChecksummedBlock(stream, written)
  }

  /** Most originals of merged shuffles are small. */
  private val FirstPieceBytes = 64 << 10
  private val MostPieceBytes = 1 << 20
}
