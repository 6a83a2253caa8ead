// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan.counts

/**
 * Numbers that are not negative, in as few bytes each as the difference between the largest and the
 * smallest one takes. Blocks of a map have about as many records each: that is one byte or two, and
 * none where all are empty. Unlike numbers of varying length, each can be looked up by its place, so
 * that a column of many rows is read without decoding the rows.
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

  /** In memory, but for what every object takes. */
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
