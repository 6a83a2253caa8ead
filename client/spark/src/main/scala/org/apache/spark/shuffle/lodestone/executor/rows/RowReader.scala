// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{ByteArrayInputStream, EOFException, IOException, InputStream}
import java.nio.ByteBuffer

import org.apache.spark.serializer.SerializerInstance
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * Reads the rows of one stream after another. As with Spark's own reader, a row is valid until the
 * next call: all rows are the same object.
 */
private[lodestone] final class RowReader(serializer: SerializerInstance)
    extends (InputStream => Iterator[(Any, Any)]) {
  import RowReader._

  private val window = new Array[Byte](WindowBytes)
  private val sizes = ByteBuffer.wrap(window)
  private var rowBytes = new Array[Byte](FirstRowBytes)
  private var row: UnsafeRow = _
  private var record: (Any, Any) = _

  /** The caller must have read the last stream to its end. */
  override def apply(in: InputStream): Iterator[(Any, Any)] = new Rows(in)

  /**
   * Learns the number of fields from the serializer, with the first row: the row itself does not
   * have it.
   */
  private def learn(size: Int): Unit = {
    val head = ByteBuffer.allocate(SqlRows.HeadBytes + size).putInt(size)
    val first = new ByteArrayInputStream(head.put(rowBytes, 0, size).array)
    val read = serializer.deserializeStream(first).asKeyValueIterator.next()
    row = new UnsafeRow(read._2.asInstanceOf[UnsafeRow].numFields)
    record = (read._1, row)
  }

  private final class Rows(in: InputStream) extends Iterator[(Any, Any)] {
    private var at = 0
    private var end = 0
    private var rowSize = nextSize()

    override def hasNext: Boolean = rowSize != NoRow

    override def next(): (Any, Any) = {
      if (!hasNext) throw new NoSuchElementException("the stream has no more rows")
      if (rowBytes.length < rowSize) rowBytes = new Array[Byte](rowSize)
      copyRow()
      if (row == null) learn(rowSize)
      row.pointTo(rowBytes, Platform.BYTE_ARRAY_OFFSET.toLong, rowSize)
      rowSize = nextSize()
      record
    }

    private def nextSize(): Int = {
      if (end - at < SqlRows.HeadBytes) refill()
      if (end == at) {
        in.close()
        NoRow
      } else if (end - at < SqlRows.HeadBytes) {
        throw new EOFException(s"the stream ends ${end - at} bytes into the size of a row")
      } else {
        sizeInWindow()
      }
    }

    private def sizeInWindow(): Int = {
      val size = sizes.getInt(at)
      if (size < 0) throw new IOException(s"a row of $size bytes: this is not a stream of rows")
      at += SqlRows.HeadBytes
      size
    }

    /** Reads until a size is complete, or the stream ends. */
    private def refill(): Unit = {
      System.arraycopy(window, at, window, 0, end - at)
      end -= at
      at = 0
      var more = true
      while (more && end < SqlRows.HeadBytes) {
        val count = in.read(window, end, window.length - end)
        if (count < 0) more = false else end += count
      }
    }

    /** Copies the part in the window, and reads the rest directly. */
    private def copyRow(): Unit = {
      var done = math.min(rowSize, end - at)
      System.arraycopy(window, at, rowBytes, 0, done)
      at += done
      while (done < rowSize) {
        val count = in.read(rowBytes, done, rowSize - done)
        if (count < 0) throw new EOFException(s"the stream ends $done bytes into a row of $rowSize")
        done += count
      }
    }
  }
}

private object RowReader {
  private val NoRow = -1

  /** As much as Spark's codecs return at a time. */
  private val WindowBytes = 32 * 1024
  private val FirstRowBytes = 1024
}
