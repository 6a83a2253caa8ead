// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.ByteBuffer
import java.util.Arrays

import scala.reflect.ClassTag

import org.apache.spark.serializer.{Serializer, SerializerInstance}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.unsafe.Platform

/**
 * Rows of Spark SQL's exchanges: a size of four bytes, then so many bytes of an `UnsafeRow`. By
 * this format Lodestone finds the end of a row without Spark's streams, which take a lock for each
 * few bytes. On both sides of a shuffle that takes as much time as the compression.
 */
private[lodestone] object SqlRows {
  private val SerializerName = "org.apache.spark.sql.execution.UnsafeRowSerializer"
  val HeadBytes = 4

  /** True if this serializer writes this format. */
  def areOf(serializer: Serializer): Boolean =
    // The name comes first: an application without SQL may lack the classes.
    serializer.getClass.getName == SerializerName && Format.isKnown

  /** True if adaptive execution plans the tasks that read the rows of the present query. */
  def areReadAdaptively(serializer: Serializer): Boolean =
    areOf(serializer) && SQLConf.get.adaptiveExecutionEnabled

  /** The number of fields of each row, which only the serializer knows: it adds it to a row. */
  def numFields(serializer: SerializerInstance): Int = {
    val emptyRow = new ByteArrayInputStream(new Array[Byte](HeadBytes))
    val read = serializer.deserializeStream(emptyRow).asKeyValueIterator.next()
    read._2.asInstanceOf[UnsafeRow].numFields
  }

  /** Tests this release of Spark once. */
  private object Format {
    val isKnown: Boolean =
      try {
        writesSizeAndBytes
      } catch {
        // An unknown release of Spark: its own streams handle rows.
        case _: LinkageError => false
      }

    private def writesSizeAndBytes: Boolean = {
      implicit val any: ClassTag[Any] = ClassTag.Any
      // One field: eight bytes for its null bit, eight for its value.
      val bytes = ByteBuffer.allocate(16).putLong(0).putLong(0x0102030405060708L).array
      val row = new UnsafeRow(1)
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length)
      val out = new ByteArrayOutputStream
      val stream = new UnsafeRowSerializer(1, null).newInstance().serializeStream(out)
      for (_ <- 1 to 2) stream.writeKey[Any](0).writeValue[Any](row)
      stream.flush()
      val expected = ByteBuffer.allocate(2 * (HeadBytes + bytes.length))
      for (_ <- 1 to 2) expected.putInt(bytes.length).put(bytes)
      Arrays.equals(out.toByteArray, expected.array)
    }
  }
}
