// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.InputStream
import java.util.zip.CRC32C

import org.apache.spark.shuffle.lodestone.executor.rows.{BrokenRowsException, Lz4Blocks}

/** Reads row groups of a stream, one after another. */
private[encoded] final class RowGroupBytes {
  import RowGroupHead._

  private[this] val checksum = new CRC32C
  private[this] val headBytes = new Array[Byte](HeadBytes)
  private[this] val head = Lz4Blocks.numbersIn(headBytes)
  private[this] var bodyBytes = new Array[Byte](8 << 10)
  private[this] var packed = 0
  private[this] var plain = 0
  private[this] var token = 0

  def kind: Int = token >> 4
  def codec: Int = token & 0xf
  def fields: Int = head.getInt(FieldsAt)

  /** The head and the body, as they are in the stream. */
  def headArray: Array[Byte] = headBytes
  def body: Array[Byte] = bodyBytes
  def packedBytes: Int = packed
  def plainBytes: Int = plain

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
    plain = head.getInt(PlainBytesAt)
    packed = head.getInt(PackedBytesAt)
    checkHead()
    if (bodyBytes.length < packed) bodyBytes = new Array[Byte](math.max(packed, 2 * body.length))
    val count = in.readNBytes(bodyBytes, 0, packed)
    if (count < packed) fail(s"the stream ends after $count of $packed bytes of a row group")
  }

  /** Compares the checksum of the head and the body. */
  def checkBytes(): Unit = {
    checksum.reset()
    checksum.update(headBytes, 0, ChecksumAt)
    checksum.update(bodyBytes, 0, packed)
    if (checksum.getValue.toInt != head.getInt(ChecksumAt))
      fail("the checksum of a row group is wrong")
  }

  private def checkHead(): Unit = {
    if (kind < Rows || kind > Piece) fail(s"a row group of the unknown kind $kind")
    if (plain < 1 || plain > RowGroup.MostBytes) fail(s"a row group of $plain bytes")
    if (packed < 1 || packed > plain) fail(s"a row group of $packed of $plain bytes")
  }

  private def fail(what: String): Nothing = throw new BrokenRowsException(s"encoded rows: $what")
}
