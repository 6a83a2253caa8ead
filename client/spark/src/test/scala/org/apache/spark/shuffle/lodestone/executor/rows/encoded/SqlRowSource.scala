// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.nio.ByteBuffer
import java.util.Arrays

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

/** Rows of any schema, as Spark's generated code writes them. */
private[encoded] final class SqlRowSource(random: Random) {
  import SqlRowSource.Column

  /**
   * A schema of so many fields, and what its columns are like.
   *
   * @param isCompiled
   *   whether generated code writes the rows, which takes long to compile, or its interpreter
   */
  def table(fields: Int, isCompiled: Boolean = false): () => Array[Byte] = {
    val columns = Array.fill(fields)(column())
    val references = for ((column, i) <- columns.toSeq.zipWithIndex)
      yield BoundReference(i, column.sqlType, nullable = true)
    val project =
      if (isCompiled) UnsafeProjection.create(references)
      else InterpretedUnsafeProjection.createProjection(references)
    () => {
      val values = columns.map(column =>
        if (random.nextDouble() < column.nullShare) null else column.next())
      bytesOf(project(new GenericInternalRow(values)))
    }
  }

  private def bytesOf(row: UnsafeRow): Array[Byte] = Arrays.copyOf(row.getBytes, row.getSizeInBytes)

  private def column(): Column = {
    val nullShare = pick(0.0, 0.0, 0.1, 0.9, 1.0)
    val distinct = pick(1, 2, 300, Int.MaxValue)
    val range = pick(1L, 200L, 60000L, 1L << 40, Long.MaxValue)
    var count = pick(0L, Long.MaxValue - 1000, Long.MinValue)
    def number(): Long = (random.nextLong() % range) % distinct
    val sorted = random.nextBoolean()
    def word(): Long = if (sorted) { count += random.nextInt(3); count }
    else number()
    def text(): String = {
      val seed = new Random(random.nextInt(distinct).toLong)
      seed.alphanumeric.take(seed.nextInt(pick(1, 9, 30, 300))).mkString
    }
    val (sqlType, next) = random.nextInt(16) match {
      case 0 => BooleanType -> (() => random.nextBoolean())
      case 1 => ByteType -> (() => word().toByte)
      case 2 => ShortType -> (() => word().toShort)
      case 3 => IntegerType -> (() => word().toInt)
      case 4 | 5 => LongType -> (() => word())
      case 6 => DoubleType -> (() => random.nextGaussian())
      case 7 => FloatType -> (() => number().toFloat)
      case 8 => DecimalType(12, 2) -> (() => Decimal(word() % 1000000000L, 12, 2))
      case 9 =>
        DecimalType(38, 4) -> (() =>
          Decimal(BigDecimal(BigInt(random.nextInt(126), random), 4), 38, 4))
      case 10 | 11 | 12 => StringType -> (() => UTF8String.fromString(text()))
      case 13 => CalendarIntervalType -> (() => new CalendarInterval(number().toInt, 3, word()))
      case 14 =>
        ArrayType(StringType) -> (() =>
          new GenericArrayData(Array.fill[Any](random.nextInt(4))(UTF8String.fromString(text()))))
      case _ => nested(() => text(), () => word())
    }
    new Column(sqlType, nullShare, next)
  }

  private def nested(text: () => String, word: () => Long): (DataType, () => Any) =
    if (random.nextBoolean()) {
      val fields = StructType(Seq(StructField("a", LongType), StructField("b", StringType)))
      fields -> (() => InternalRow(word(), UTF8String.fromString(text())))
    } else {
      MapType(IntegerType, LongType) -> (() => ArrayBasedMapData(Map(1 -> word(), 2 -> word())))
    }

  /** Bytes that only have the length of rows. */
  def anyBytes(fields: Int): () => Array[Byte] = () => {
    val words = (fields + 63) / 64 + fields + random.nextInt(5)
    val bytes = ByteBuffer.allocate(8 * words)
    for (_ <- 0 until words) {
      bytes.putLong(pick(
        0L,
        random.nextLong(),
        random.nextInt(300).toLong << 32 | random.nextInt(40)))
    }
    bytes.array
  }

  private def pick[T](choices: T*): T = choices(random.nextInt(choices.size))
}

private[encoded] object SqlRowSource {
  private final class Column(val sqlType: DataType, val nullShare: Double, val next: () => Any)
}
