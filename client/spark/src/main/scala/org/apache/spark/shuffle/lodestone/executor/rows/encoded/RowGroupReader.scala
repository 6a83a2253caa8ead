// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.InputStream

import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.shuffle.lodestone.plan.SqlRows
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * Reads the rows of one stream after another. As with Spark's own reader, a row is valid until the
 * next one is asked for: all rows are the same object.
 */
private[encoded] final class RowGroupReader(numFields: Int, codecs: Int => Option[RowGroupCodec])
    extends (InputStream => Iterator[(Any, Any)]) {
  import RowGroupReader._
  import RowGroupHead._

  private[this] val group = new RowGroupInput(numFields, codecs)
  private[this] val decoder = new RowGroupDecoder
  private[this] val source = new ByteSource

  /** A row that is larger than a row group. */
  private[this] var largeRow = Array.emptyByteArray
  private[this] val row = new UnsafeRow(numFields)
  private[this] val record: (Any, Any) = (0, row)

  /** The caller must have read the last stream to its end. */
  override def apply(in: InputStream): Iterator[(Any, Any)] = new RowsOf(in)

  private final class RowsOf(in: InputStream) extends Iterator[(Any, Any)] {

    /** The next row of the group: its number in columns, its place in rows. */
    private[this] var at = 0
    private[this] var end = 0
    private[this] var hasGroup = false
    prepare()

    override def hasNext: Boolean = at < end || hasGroup

    override def next(): (Any, Any) = {
      if (at == end) load()
      if (group.kind == Columns) {
        val start = decoder.starts(at)
        point(decoder.bytes, start, decoder.starts(at + 1) - start)
        at += 1
      } else if (group.kind == RowGroupHead.Rows) {
        at += SqlRows.HeadBytes + pointToRow()
      } else {
        point(largeRow, 0, end)
        at = end
      }
      if (at == end) prepare()
      record
    }

    /** Reads the head of the next group. The last row stays as it is. */
    private def prepare(): Unit = {
      hasGroup = group.readHead(in)
      if (!hasGroup) {
        in.close()
        // The last row keeps its array until the next one is asked for.
        if (largeRow.length > KeptBytes) largeRow = Array.emptyByteArray
      }
    }

    private def load(): Unit = {
      if (!hasGroup) throw new NoSuchElementException("the stream has no more rows")
      group.readBody(in)
      at = 0
      group.kind match {
        case Columns =>
          source.open(group.plain, 0, group.plainBytes)
          decoder.decode(source, numFields)
          end = decoder.count
        case RowGroupHead.Rows => end = group.plainBytes
        case _ => end = loadLargeRow()
      }
      if (end == 0) fail("a row group without rows")
    }

    private def pointToRow(): Int = {
      val left = end - at - SqlRows.HeadBytes
      if (left < 0) fail("a row group ends in the size of a row")
      val size = Integer.reverseBytes(Platform.getInt(group.plain, ByteSink.address(at)))
      if (size < 0 || size % 8 != 0 || size > left)
        fail(s"a row of $size bytes where $left are left")
      point(group.plain, at + SqlRows.HeadBytes, size)
      size
    }

    /** Puts a row together. Memory is taken as its bytes come. Returns its size. */
    private def loadLargeRow(): Int = {
      if (group.plainBytes < SqlRows.HeadBytes) fail("a row without its size")
      val size = Integer.reverseBytes(Platform.getInt(group.plain, ByteSink.address(0)))
      if (size <= 0 || size % 8 != 0) fail(s"a row of $size bytes")
      var done = take(SqlRows.HeadBytes, 0, size)
      while (done < size) {
        if (!group.readHead(in)) fail(s"a row of $size bytes ends after $done")
        group.readBody(in)
        if (group.kind != Piece) fail(s"a row of $size bytes is not continued after $done")
        done = take(0, done, size)
      }
      size
    }

    private def take(from: Int, done: Int, size: Int): Int = {
      val some = group.plainBytes - from
      if (some > size - done) fail(s"${done.toLong + some} bytes of a row of $size")
      if (largeRow.length < done + some) {
        val bytes = math.min(size.toLong, math.max(KeptBytes.toLong, 2L * (done + some)))
        // An odd number: `UnsafeRow.getBytes` would not copy an array that is the row as a whole.
        largeRow = java.util.Arrays.copyOf(largeRow, math.min(bytes | 1, MostArrayBytes).toInt)
      }
      System.arraycopy(group.plain, from, largeRow, done, some)
      done + some
    }
  }

  private def point(bytes: Array[Byte], start: Int, size: Int): Unit =
    row.pointTo(bytes, ByteSink.address(start), size)

  private def fail(what: String): Nothing = throw new BrokenRowsException(s"encoded rows: $what")
}

private[encoded] object RowGroupReader {

  /** Memory that a row has at once, and keeps. For more, its bytes must be there. */
  private val KeptBytes = 1 << 20
  private val MostArrayBytes = Int.MaxValue - 8L
}
