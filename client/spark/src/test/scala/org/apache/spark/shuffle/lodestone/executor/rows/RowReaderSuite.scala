// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, EOFException, IOException, InputStream}
import java.nio.ByteBuffer
import java.util.Arrays

import scala.reflect.ClassTag
import scala.util.Random

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.serializer.{JavaSerializer, KryoSerializer}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.unsafe.Platform

/** The rows that are read without Spark's streams equal those with them. */
final class RowReaderSuite {
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
      assertThrows(classOf[EOFException], () => { read(); () }, s"cut at $end")
    }
  }

  @Test def `bytes that are no stream of rows are an error`(): Unit = {
    val noise = new ByteArrayInputStream(ByteBuffer.allocate(8).putInt(-2).array)
    val failure =
      assertThrows(classOf[IOException], () => { new RowReader(serializer)(noise); () })
    assertTrue(failure.getMessage.contains("-2 bytes"), failure.getMessage)
  }

  @Test def `only the rows of exchanges are taken for such`(): Unit = {
    assertTrue(SqlRows.areOf(new UnsafeRowSerializer(fields)))
    assertFalse(SqlRows.areOf(new JavaSerializer(new SparkConf(false))))
    assertFalse(SqlRows.areOf(new KryoSerializer(new SparkConf(false))))
  }

  /** Returns a random number of bytes at a time. */
  private final class Pieces(bytes: Array[Byte], random: Random) extends InputStream {
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
