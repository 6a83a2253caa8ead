// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import org.apache.spark.unsafe.Platform

/**
 * What the eight bytes of each field of an `UnsafeRow` are. A row does not say it: it begins with a
 * bit for each field that is null, then has a word for each field. The word is the value, or the
 * place and size of bytes behind the words. Spark's writers place those bytes in the order of the
 * fields, without gaps. So words that continue this order in all rows, up to the end of each row,
 * are places; all others are values.
 */
private[encoded] final class RowShape(val numFields: Int) {
  import RowShape._

  val nullWords: Int = (numFields + 63) / 64

  /** Where the bytes begin that words refer to. */
  val fixedBytes: Int = (nullWords + numFields) * 8
  private[this] val kindOf = new Array[Byte](numFields)

  def kind(field: Int): Int = kindOf(field)

  /** All words are values, and the rest of a row is only bytes. */
  def forget(): Unit = java.util.Arrays.fill(kindOf, Value)

  /** Looks at the first rows. Their order may not hold for others, which an encoder finds out. */
  def guess(group: RowGroup, rows: Int): Unit = {
    java.util.Arrays.fill(kindOf, Unknown)
    var row = 0
    var isKnown = true
    while (isKnown && row < rows) {
      isKnown = follow(group, row)
      row += 1
    }
    if (isKnown) {
      var field = 0
      while (field < numFields) {
        if (kindOf(field) == Unknown) kindOf(field) = Value
        field += 1
      }
    } else {
      forget()
    }
  }

  /** Returns false if a row contradicts itself or the rows before. */
  private def follow(group: RowGroup, row: Int): Boolean = {
    val bytes = group.bytes
    val start = ByteSink.address(group.starts(row))
    val end = group.sizes(row)
    var cursor = fixedBytes
    // The last field with bytes that may have 16 of them, whatever its size is.
    var lastShort = -1
    var field = 0
    while (field < numFields) {
      val word = Platform.getLong(bytes, start + 8L * (nullWords + field))
      val isNull = isNullAt(bytes, start, field)
      val (place, size) = ((word >>> 32).toInt, word.toInt)
      val isLater = lastShort >= 0 && place > cursor && place == fixedEnd(group, row, lastShort)
      val isPlace = (place == cursor || isLater) && size >= 0 && size <= end - place &&
        (!isNull || size == 0 || size == 16)
      if (isPlace && kindOf(field) != Value) {
        if (isLater) {
          kindOf(lastShort) = Fixed16
          cursor = place
        }
        if (isNull) kindOf(field) = Fixed16
        else if (kindOf(field) == Unknown) kindOf(field) = Bytes
        val takes = if (kindOf(field) == Fixed16) 16 else padded(size)
        lastShort = if (kindOf(field) == Bytes && size <= 8) field else -1
        cursor += takes
      } else if (!isNull) {
        if (kindOf(field) == Unknown) kindOf(field) = Value
        if (kindOf(field) != Value) return false
      }
      field += 1
    }
    if (cursor != end && lastShort >= 0 && fixedEnd(group, row, lastShort) == end) {
      kindOf(lastShort) = Fixed16
      cursor = end
    }
    cursor == end
  }

  private def fixedEnd(group: RowGroup, row: Int, field: Int): Int = {
    val start = ByteSink.address(group.starts(row))
    (Platform.getLong(group.bytes, start + 8L * (nullWords + field)) >>> 32).toInt + 16
  }
}

private[encoded] object RowShape {

  /** The word is the value, or is zero. */
  val Value: Byte = 0

  /** Bytes, filled up with zeros to words: strings, binaries, arrays, maps and structs. */
  val Bytes: Byte = 1

  /** Always 16 bytes, also for null: decimals of more than 18 digits, and intervals. */
  val Fixed16: Byte = 2
  private val Unknown: Byte = 3

  def padded(size: Int): Int = (size + 7) & ~7

  def isNullAt(bytes: Array[Byte], rowAddress: Long, field: Int): Boolean =
    (Platform.getLong(bytes, rowAddress + 8L * (field >> 6)) >>> (field & 63) & 1) != 0
}
