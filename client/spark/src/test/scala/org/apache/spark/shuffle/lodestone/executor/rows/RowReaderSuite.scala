// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream}
import java.nio.ByteBuffer
import java.util.Arrays

import scala.reflect.ClassTag
import scala.util.Random

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.serializer.{JavaSerializer, KryoSerializer}
import org.apache.spark.shuffle.lodestone.plan.SqlRows
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.unsafe.Platform

/** The rows that are read without Spark's streams equal those with them. */
final class RowReaderSuite {
  import RowReaderSuite.Pieces

  private implicit val any: ClassTag[Any] = ClassTag.Any
  private val fields = 3
  private val serializer = new UnsafeRowSerializer(fields).newInstance()

  private def row(bytes: Array[Byte]): UnsafeRow = {
    val row = new UnsafeRow(fields)
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length)
    row
  }

  /** The bytes that Spark writes. */
  private def written(rows: Seq[Array[Byte]]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val stream = serializer.serializeStream(out)
    rows.foreach(bytes => stream.writeKey[Any](0).writeValue[Any](row(bytes)))
    stream.close()
    out.toByteArray
  }

  /** Key, fields, length and hash of each. */
  private def rowsOf(records: Iterator[(Any, Any)]): Seq[(Any, Int, Int, Int)] =
    records.map { record =>
      val row = record._2.asInstanceOf[UnsafeRow]
      (record._1, row.numFields, row.getSizeInBytes, Arrays.hashCode(row.getBytes))
    }.toList

  private def bytesOfARow(random: Random): Array[Byte] = {
    val bytes = new Array[Byte](8 * random.nextInt(if (random.nextInt(20) == 0) 20000 else 40))
    random.nextBytes(bytes)
    bytes
  }

  @Test def `rows are those that Spark reads however the stream is cut`(): Unit = {
    val seed = System.nanoTime()
    val random = new Random(seed)
    val reader = new RowReader(serializer)
    for (_ <- 1 to 50) {
      val rows = Seq.fill(random.nextInt(500))(bytesOfARow(random))
      val bytes = written(rows)
      val expected = rowsOf(
        serializer.deserializeStream(new ByteArrayInputStream(bytes)).asKeyValueIterator)
      assertEquals(expected, rowsOf(reader(new Pieces(bytes, random))), s"seed $seed")
    }
  }

  @Test def `a stream is closed at its end and not before`(): Unit = {
    val in = new Pieces(written(Seq(new Array[Byte](32))), new Random(1))
    val records = new RowReader(serializer)(in)
    assertFalse(in.isClosed)
    records.next()
    assertFalse(records.hasNext)
    assertTrue(in.isClosed)
    assertThrows(classOf[NoSuchElementException], () => { records.next(); () })
  }

  @Test def `a stream that ends within a row is an error wherever it ends`(): Unit = {
    val whole = written(Seq(new Array[Byte](32), new Array[Byte](40)))
    val ends = Set(0, 36, whole.length)
    for (end <- whole.indices if !ends(end)) {
      val cut = new ByteArrayInputStream(whole, 0, end)
      val read = () => new RowReader(serializer)(cut).size
      assertThrows(classOf[BrokenRowsException], () => { read(); () }, s"cut at $end")
    }
  }

  @Test def `bytes that are no stream of rows are an error`(): Unit = {
    for (size <- Seq(-2, -8, 12, 33, Int.MinValue, Int.MaxValue)) {
      val noise = new ByteArrayInputStream(ByteBuffer.allocate(80).putInt(size).array)
      val failure =
        assertThrows(classOf[BrokenRowsException], () => { new RowReader(serializer)(noise); () })
      assertTrue(failure.getMessage.contains(s"$size bytes"), failure.getMessage)
    }
  }

  @Test def `a size that is wrong takes no memory for bytes that do not come`(): Unit =
    for (size <- Seq(0x7ffffff0, 0x7ffffff8)) {
      val wrong = ByteBuffer.allocate(3 << 20).putInt(size).array
      val records = new RowReader(serializer)(new ByteArrayInputStream(wrong))
      assertThrows(classOf[BrokenRowsException], () => { records.next(); () })
    }

  /** As a window function that keeps them. Copies of a row must be copies in each place. */
  @Test def `the bytes of rows that were taken stay as they are`(): Unit = {
    val seed = System.nanoTime()
    val random = new Random(seed)
    val reader = new RowReader(serializer)
    for (words <- Seq(4, 127, 128, 129, 5000, 131072, 150000, 4)) {
      val rows = Seq.fill(if (words > 100000) 3 else 100000 / words + 3) {
        val bytes = new Array[Byte](8 * words)
        random.nextBytes(bytes)
        bytes
      }
      val kept = reader(new Pieces(written(rows), random))
        .map(_._2.asInstanceOf[UnsafeRow].getBytes)
        .toList
      assertEquals(rows.size, kept.size)
      for ((row, taken) <- rows.zip(kept)) {
        assertArrayEquals(row, taken, s"seed $seed: rows of $words words")
      }
    }
  }

  @Test def `only the rows of exchanges are taken for such`(): Unit = {
    assertTrue(SqlRows.areOf(new UnsafeRowSerializer(fields)))
    assertFalse(SqlRows.areOf(new JavaSerializer(new SparkConf(false))))
    assertFalse(SqlRows.areOf(new KryoSerializer(new SparkConf(false))))
  }

  /** Rows that end in each place around the end of a window, with their sizes. */
  @Test def `a row stays as it is until the next one is asked for`(): Unit = {
    val seed = System.nanoTime()
    val random = new Random(seed)
    val reader = new RowReader(serializer)
    for (words <- Seq(3, 17, 500, 4093, 4094, 4095, 4096, 4097, 9000); shift <- 0 until 3) {
      val rows = Seq.tabulate(if (words > 1000) 20 else 3000) { at =>
        val bytes = new Array[Byte](8 * (if (at == 0) shift + 3 else words))
        random.nextBytes(bytes)
        bytes
      }
      // Streams of several blocks, so that the first row of one follows the last row of another.
      for (some <- rows.grouped(rows.size / 2)) {
        val in =
          if (shift == 0) new ByteArrayInputStream(written(some))
          else new Pieces(written(some), random)
        val records = reader(in)
        some.foreach { expected =>
          val row = records.next()._2.asInstanceOf[UnsafeRow]
          assertEquals(records.hasNext, records.hasNext)
          assertArrayEquals(expected, row.getBytes, s"seed $seed: rows of $words words")
        }
        assertFalse(records.hasNext)
      }
    }
  }

  @Test def `rows without fields are counted`(): Unit = {
    val none = new UnsafeRowSerializer(0).newInstance()
    val rows = 20000
    val bytes = new Array[Byte](SqlRows.HeadBytes * rows)
    val found = rowsOf(new RowReader(none)(new Pieces(bytes, new Random(2))))
    assertEquals(rows, found.size)
    assertEquals(Set((0, 0, 0, Arrays.hashCode(Array.emptyByteArray))), found.toSet)
  }
}

private object RowReaderSuite {

  /** Returns a random number of bytes at a time. */
  final class Pieces(bytes: Array[Byte], random: Random) extends InputStream {
    private val inner = new ByteArrayInputStream(bytes)
    var isClosed = false

    override def read(): Int = inner.read()

    override def read(into: Array[Byte], offset: Int, length: Int): Int = {
      val most = if (random.nextInt(4) == 0) 3 else 1 + random.nextInt(60000)
      inner.read(into, offset, math.min(length, most))
    }

    override def close(): Unit = isClosed = true
  }
}
