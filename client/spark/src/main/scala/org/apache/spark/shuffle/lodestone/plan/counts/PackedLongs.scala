// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan.counts

/**
 * Numbers that are not negative. Each takes as many bytes as the difference between the largest and
 * the smallest one. The blocks of a map have similar numbers of records: one byte or two each, and
 * none if all are equal. Unlike a code of variable length, this allows access by index, so that a
 * reader of one column does not decode the rows.
 */
private[lodestone] final class PackedLongs private (
    val length: Int,
    least: Long,
    width: Int,
    packed: Array[Byte])
    extends Serializable {

  def apply(index: Int): Long = {
    if (index < 0 || index >= length) {
      throw new IndexOutOfBoundsException(s"$index of $length numbers")
    }
    var value = 0L
    var at = index * width
    val end = at + width
    while (at < end) {
      value = (value << 8) | (packed(at) & 0xffL)
      at += 1
    }
    least + value
  }

  def bytes: Int = packed.length
}

private[lodestone] object PackedLongs {

  def apply(values: Array[Long]): PackedLongs = {
    var least = Long.MaxValue
    var most = 0L
    values.foreach { value =>
      require(value >= 0, "a number of records, or of a map task, is not negative")
      if (value < least) least = value
      if (value > most) most = value
    }
    if (values.isEmpty) {
      new PackedLongs(0, 0, 0, Array.emptyByteArray)
    } else {
      val width = bytesFor(most - least)
      new PackedLongs(values.length, least, width, packed(values, least, width))
    }
  }

  private def bytesFor(range: Long): Int =
    (java.lang.Long.SIZE - java.lang.Long.numberOfLeadingZeros(range) + 7) / 8

  private def packed(values: Array[Long], least: Long, width: Int): Array[Byte] = {
    val bytes = new Array[Byte](Math.multiplyExact(values.length, width))
    var index = 0
    while (index < values.length) {
      var left = values(index) - least
      var at = (index + 1) * width
      val first = index * width
      while (at > first) {
        at -= 1
        bytes(at) = left.toByte
        left >>>= 8
      }
      index += 1
    }
    bytes
  }
}
