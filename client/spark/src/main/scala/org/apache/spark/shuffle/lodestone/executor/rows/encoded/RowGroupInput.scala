// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.InputStream

import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException

/**
 * Reads row groups of a stream, one after another, and decompresses them. The stream has compared
 * their checksums: [[CheckedGroups]].
 */
private[encoded] final class RowGroupInput(numFields: Int, codecs: Int => Option[RowGroupCodec]) {
  private[this] val group = new RowGroupBytes
  private[this] val plainOfGroup = new Array[Byte](RowGroup.MostBytes + ByteSink.WordBytes)

  def kind: Int = group.kind
  def plain: Array[Byte] = plainOfGroup
  def plainBytes: Int = group.plainBytes

  /** Reads the next head, and leaves the group before it as it is. False at the end. */
  def readHead(in: InputStream): Boolean = group.readHead(in)

  def readBody(in: InputStream): Unit = {
    group.readBody(in)
    val fields = group.fields
    if (fields != numFields) fail(s"rows of $fields fields, where $numFields are expected")
    unpack()
  }

  private def unpack(): Unit = group.codec match {
    case RowGroupCodec.NoneId =>
      val (packed, length) = (group.packedBytes, group.plainBytes)
      if (packed != length) fail(s"a row group of $packed of $length bytes, not compressed")
      System.arraycopy(group.body, 0, plainOfGroup, 0, length)
    case id =>
      val codec = codecs(id).getOrElse(fail(s"a row group of the unknown codec $id"))
      val unpacked =
        codec.decompress(group.body, 0, group.packedBytes, plainOfGroup, group.plainBytes)
      if (unpacked != group.plainBytes) fail("the compressed bytes of a row group are damaged")
  }

  private def fail(what: String): Nothing = throw new BrokenRowsException(s"encoded rows: $what")
}
