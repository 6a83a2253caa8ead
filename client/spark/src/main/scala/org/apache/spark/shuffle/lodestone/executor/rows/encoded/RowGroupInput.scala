// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.InputStream
import java.util.zip.CRC32C

import org.apache.spark.shuffle.lodestone.executor.rows.{BrokenRowsException, Lz4Blocks}

/** Reads row groups of a stream, one after another, and checks and decompresses them. */
private[encoded] final class RowGroupInput(numFields: Int, codecs: Int => Option[RowGroupCodec]) {
  import RowGroupHead._

  private[this] val checksum = new CRC32C
  private[this] val headBytes = new Array[Byte](HeadBytes)
  private[this] val head = Lz4Blocks.numbersIn(headBytes)
  private[this] var body = new Array[Byte](8 << 10)
  private[this] val plainOfGroup = new Array[Byte](RowGroup.MostBytes + ByteSink.WordBytes)
  private[this] var packedBytes = 0
  private[this] var length = 0
  private[this] var token = 0

  def kind: Int = token >> 4
  def plain: Array[Byte] = plainOfGroup
  def plainBytes: Int = length

  /** Reads the next head, and leaves the group before it as it is. False at the end. */
  def readHead(in: InputStream): Boolean = {
    val count = in.readNBytes(headBytes, 0, HeadBytes)
    if (count > 0) {
      if (count < HeadBytes) fail(s"the stream ends $count bytes into the head of a row group")
      if (head.getShort(0) != Magic) fail("there is no row group: the bytes are damaged")
      val version = headBytes(VersionAt)
      if (version != Version) {
        fail(
          s"version $version of the format, where $Version is known: the bytes are damaged, or " +
            "the map task had another version of Lodestone's jar")
      }
    }
    count > 0
  }

  def readBody(in: InputStream): Unit = {
    token = headBytes(TokenAt) & 0xff
    length = head.getInt(PlainBytesAt)
    packedBytes = head.getInt(PackedBytesAt)
    checkHead()
    if (body.length < packedBytes) body = new Array[Byte](math.max(packedBytes, 2 * body.length))
    val count = in.readNBytes(body, 0, packedBytes)
    if (count < packedBytes)
      fail(s"the stream ends after $count of $packedBytes bytes of a row group")
    checkBytes()
    unpack()
  }

  private def checkHead(): Unit = {
    if (kind < Rows || kind > Piece) fail(s"a row group of the unknown kind $kind")
    val fields = head.getInt(FieldsAt)
    if (fields != numFields) fail(s"rows of $fields fields, where $numFields are expected")
    if (length < 1 || length > RowGroup.MostBytes) fail(s"a row group of $length bytes")
    if (packedBytes < 1 || packedBytes > length)
      fail(s"a row group of $packedBytes of $length bytes")
  }

  private def checkBytes(): Unit = {
    checksum.reset()
    checksum.update(headBytes, 0, ChecksumAt)
    checksum.update(body, 0, packedBytes)
    if (checksum.getValue.toInt != head.getInt(ChecksumAt))
      fail("the checksum of a row group is wrong")
  }

  private def unpack(): Unit = token & 0xf match {
    case RowGroupCodec.NoneId =>
      if (packedBytes != length)
        fail(s"a row group of $packedBytes of $length bytes, not compressed")
      System.arraycopy(body, 0, plainOfGroup, 0, length)
    case id =>
      val codec = codecs(id).getOrElse(fail(s"a row group of the unknown codec $id"))
      val unpacked = codec.decompress(body, 0, packedBytes, plainOfGroup, length)
      if (unpacked != length) fail("the compressed bytes of a row group are damaged")
  }

  private def fail(what: String): Nothing = throw new BrokenRowsException(s"encoded rows: $what")
}
