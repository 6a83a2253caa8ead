// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{ByteArrayInputStream, IOException, InputStream}
import java.nio.ByteBuffer
import java.util.Arrays

import org.apache.spark.serializer.SerializerInstance
import org.apache.spark.shuffle.lodestone.plan.SqlRows
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Bytes that are not rows, or not whole ones: they were damaged after they were written. */
private[lodestone] final class BrokenRowsException(what: String) extends IOException(what)

/**
 * Reads the rows of one stream after another. As with Spark's own reader, a row is valid until the
 * next one is asked for: all rows are the same object.
 */
private[lodestone] final class RowReader(serializer: SerializerInstance)
    extends (InputStream => Iterator[(Any, Any)]) {
  private val NoRow = -1

  /** Memory that a row has at once, and keeps. For more, its bytes must be there. */
  private val KeptBytes = 1 << 20

  /** Takes a block of Spark's LZ4 codec, behind a part of the size of a row. */
  private val window = new Array[Byte](32 * 1024 + SqlRows.HeadBytes)
  private val sizes = ByteBuffer.wrap(window)

  /**
   * The bytes of a row that does not lie in the window. Their number is odd, and that of a row is
   * not: `UnsafeRow.getBytes` would not copy an array that is the row as a whole.
   */
  private var rowBytes = new Array[Byte](1025)
  private var row: UnsafeRow = _
  private var record: (Any, Any) = _

  /** The caller must have read the last stream to its end. */
  override def apply(in: InputStream): Iterator[(Any, Any)] = new Rows(in)

  private def point(bytes: Array[Byte], start: Int, size: Int): Unit = {
    if (row == null) {
      // A row does not have the number of its fields. The serializer adds it to the first one.
      val head = ByteBuffer.allocate(SqlRows.HeadBytes + size).putInt(size)
      val first = new ByteArrayInputStream(head.put(bytes, start, size).array)
      val read = serializer.deserializeStream(first).asKeyValueIterator.next()
      row = new UnsafeRow(read._2.asInstanceOf[UnsafeRow].numFields)
      record = (read._1, row)
    }
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + start, size)
  }

  private final class Rows(in: InputStream) extends Iterator[(Any, Any)] {
    private var at = 0
    private var end = 0
    private var rowSize = nextSize()

    override def hasNext: Boolean = rowSize != NoRow

    override def next(): (Any, Any) = {
      if (!hasNext) throw new NoSuchElementException("the stream has no more rows")
      // Reading the next size must not refill the window to which a row points.
      if (end - at - SqlRows.HeadBytes >= rowSize) {
        point(window, at, rowSize)
        at += rowSize
      } else {
        copyRow()
        point(rowBytes, 0, rowSize)
      }
      rowSize = nextSize()
      record
    }

    private def nextSize(): Int = {
      while (end - at < SqlRows.HeadBytes && refill()) {}
      if (end == at) {
        in.close()
        // The last row keeps its array until the next one is asked for.
        if (rowBytes.length > KeptBytes) rowBytes = new Array[Byte](1025)
        NoRow
      } else if (end - at < SqlRows.HeadBytes) {
        fail(s"the stream ends ${end - at} bytes into the size of a row")
      } else {
        val size = sizes.getInt(at)
        if (size < 0 || size % 8 != 0) fail(s"a row of $size bytes: this is not a stream of rows")
        at += SqlRows.HeadBytes
        size
      }
    }

    /** Reads more behind what is left. Returns false at the end of the stream. */
    private def refill(): Boolean = {
      System.arraycopy(window, at, window, 0, end - at)
      end -= at
      at = 0
      val count = in.read(window, end, window.length - end)
      if (count > 0) end += count
      count >= 0
    }

    private def copyRow(): Unit = {
      var done = 0
      while (done < rowSize) {
        if (at == end && !refill()) fail(s"the stream ends $done bytes into a row of $rowSize")
        val some = math.min(rowSize - done, end - at)
        if (rowBytes.length < done + some) {
          val room = math.max(KeptBytes.toLong, 2L * (done + some))
          rowBytes = Arrays.copyOf(rowBytes, math.min(room, rowSize.toLong).toInt + 1)
        }
        System.arraycopy(window, at, rowBytes, done, some)
        at += some
        done += some
      }
    }

    private def fail(what: String): Nothing = throw new BrokenRowsException(what)
  }
}
