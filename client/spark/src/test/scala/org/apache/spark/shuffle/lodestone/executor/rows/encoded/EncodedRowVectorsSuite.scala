// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.nio.ByteBuffer

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.GoldenVectors

/** The blocks in `protocol/vectors/encoded-rows.txt`, written by hand from docs/encoded-rows.md. */
final class EncodedRowVectorsSuite {
  import EncodedRowVectorsSuite._

  @Test def `a reader makes the rows of each block`(): Unit =
    assertEquals(
      byName(name => rowsIn(vectors(s"$name.rows")).map(hexOf)),
      byName { name =>
        val block = vectors(s"$name.block")
        EncodedRowsSuite.read(block, fieldsOf(block)).map(hexOf)
      })

  @Test def `a writer makes the bytes of each block that a codec did not choose`(): Unit =
    assertEquals(
      byName(name => hexOf(vectors(s"$name.block"))) -- Compressed,
      byName { name =>
        val groupBytes = BytesOfSmallGroups.getOrElse(name, RowGroup.MostBytes)
        val fields = fieldsOf(vectors(s"$name.block"))
        val writer = new RowGroupWriter(EncodedRowsSuite.plain, fields, groupBytes)
        hexOf(EncodedRowsSuite.written(writer, rowsIn(vectors(s"$name.rows"))))
      } -- Compressed)
}

private object EncodedRowVectorsSuite {
  private val vectors = GoldenVectors.read("encoded-rows.txt")
  private val Compressed = Set("lz4", "zstd")

  /** The writers of several row groups. */
  private val BytesOfSmallGroups =
    Map("pieces" -> 32, "rows-for-sixteen-groups" -> 20, "plain-for-seven-columns" -> 64)

  private def byName[T](of: String => T): Map[String, T] =
    vectors.keySet.map(name => name.take(name.lastIndexOf('.'))).map(name => name -> of(name)).toMap

  private def fieldsOf(block: Array[Byte]): Int =
    Integer.reverseBytes(ByteBuffer.wrap(block).getInt(RowGroupHead.FieldsAt))

  /** Each row has its size before it. */
  private def rowsIn(bytes: Array[Byte]): Seq[Array[Byte]] = {
    val left = ByteBuffer.wrap(bytes)
    Iterator.continually(left).takeWhile(_.hasRemaining).map { _ =>
      val row = new Array[Byte](left.getInt())
      left.get(row)
      row
    }.toVector
  }

  private def hexOf(bytes: Array[Byte]): String = bytes.map("%02x".format(_)).mkString
}
