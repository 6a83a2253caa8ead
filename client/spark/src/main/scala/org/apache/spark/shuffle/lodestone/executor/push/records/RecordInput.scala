// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.OutputStream
import java.util.Arrays

import scala.reflect.ClassTag

import org.apache.spark.serializer.{Serializer, SerializerInstance}
import org.apache.spark.shuffle.lodestone.plan.SqlRows
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Serializes records one by one into pages. */
private[push] trait RecordInput {
  def add(partition: Int, key: Any, value: Any): Unit
  def finish(): Unit
}

private[push] object RecordInput {

  def apply(serializer: Serializer, pages: RecordPages): RecordInput = {
    val instance = serializer.newInstance()
    if (SqlRows.areOf(serializer)) new RowInput(instance, pages) else new AnyInput(instance, pages)
  }

  /**
   * A buffer whose bytes can be read without a copy, and without a lock for each record. It grows
   * with the largest record.
   */
  private[records] final class Buffer extends OutputStream {
    private var held = new Array[Byte](2 * RowInput.FullBytes)
    private var filled = 0

    def bytes: Array[Byte] = held

    def size: Int = filled

    def reset(): Unit = filled = 0

    override def write(byte: Int): Unit = {
      makeRoom(1)
      held(filled) = byte.toByte
      filled += 1
    }

    override def write(from: Array[Byte], start: Int, length: Int): Unit = {
      makeRoom(length)
      System.arraycopy(from, start, held, filled, length)
      filled += length
    }

    private def makeRoom(bytes: Int): Unit = if (bytes > held.length - filled) {
      val least = filled.toLong + bytes
      if (least > MostBytes) throw new OutOfMemoryError(s"a record of more than $MostBytes bytes")
      held = Arrays.copyOf(held, math.max(least, math.min(MostBytes, held.length * 2L)).toInt)
    }
  }

  private val MostBytes = Int.MaxValue - 8L
}

/** Flushes the stream after each record to find its end. */
private final class AnyInput(serializer: SerializerInstance, pages: RecordPages)
    extends RecordInput {
  private val buffer = new RecordInput.Buffer
  private val stream = serializer.serializeStream(buffer)
  private implicit val any: ClassTag[Any] = ClassTag.Any

  override def add(partition: Int, key: Any, value: Any): Unit = {
    buffer.reset()
    stream.writeKey[Any](key)
    stream.writeValue[Any](value)
    stream.flush()
    pages.insert(buffer.bytes, 0, buffer.size, partition)
  }

  override def finish(): Unit = ()
}

/** Flushes the stream once for many rows, because the end of a row is known. */
private final class RowInput(serializer: SerializerInstance, pages: RecordPages)
    extends RecordInput {
  import RowInput._

  private val buffer = new RecordInput.Buffer
  private val stream = serializer.serializeStream(buffer)
  private val partitions = new Array[Int](MostRows)
  private val sizes = new Array[Int](MostRows)
  private var rows = 0
  private var bytes = 0
  private implicit val any: ClassTag[Any] = ClassTag.Any

  override def add(partition: Int, key: Any, value: Any): Unit = {
    val size = SqlRows.HeadBytes + value.asInstanceOf[UnsafeRow].getSizeInBytes
    if (rows == MostRows || size > FullBytes - bytes) finish()
    stream.writeKey[Any](key)
    stream.writeValue[Any](value)
    partitions(rows) = partition
    sizes(rows) = size
    rows += 1
    bytes += size
  }

  override def finish(): Unit = if (rows > 0) {
    stream.flush()
    if (buffer.size != bytes) {
      throw new IllegalStateException(s"$rows rows of $bytes bytes became ${buffer.size}")
    }
    insertAll()
    buffer.reset()
    rows = 0
    bytes = 0
  }

  private def insertAll(): Unit = {
    var row = 0
    var start = 0
    while (row < rows) {
      pages.insert(buffer.bytes, start, sizes(row), partitions(row))
      start += sizes(row)
      row += 1
    }
  }
}

private object RowInput {

  /** The flush costs nothing at this size, and the rows stay in the processor's cache. */
  val FullBytes: Int = 32 * 1024

  /** A row has at least four bytes. */
  private val MostRows = 1024
}
