// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.util.Arrays

import org.apache.spark.unsafe.Platform

/**
 * A column of bytes, such as strings: one after another, or by a dictionary if few are distinct.
 * Each begins at a word, and is filled up with zeros to the next one.
 */
private[encoded] object Texts {
  private val Plain = 0
  private val Dictionary = 1

  /** A dictionary saves little beyond this share of distinct values. */
  private val DistinctShare = 4
  private val MostDistinct = 4096

  /** After a column had too many distinct values, the next row groups are not looked at. */
  private val GroupsWithout = 7

  final class Encoder(words: Words.Encoder) {
    private[this] val table = new Array[Int](4 * MostDistinct)
    private[this] val firstRow = new Array[Int](MostDistinct)
    private[this] val codes = new Array[Long](RowGroup.MostRows)
    private[this] val entrySizes = new Array[Long](MostDistinct)

    /**
     * Encodes `count` values of these sizes, which begin at these places of `bytes`.
     *
     * @param without
     *   row groups that are encoded without a dictionary
     * @return
     *   the new number of these
     */
    def encode(
        bytes: Array[Byte],
        places: Array[Int],
        sizes: Array[Long],
        count: Int,
        without: Int,
        to: ByteSink): Int = {
      val most = math.min(MostDistinct, math.max(count / DistinctShare, math.min(16, count / 2)))
      val distinct = if (without > 0) -1 else look(bytes, places, sizes, count, most)
      if (distinct >= 0) {
        to.byte(Dictionary)
        dictionary(bytes, places, sizes, distinct, to)
        words.encode(codes, count, to)
        0
      } else {
        to.byte(Plain)
        words.encode(sizes, count, to)
        var row = 0
        while (row < count) {
          append(bytes, places(row), sizes(row).toInt, to)
          row += 1
        }
        if (without > 0) without - 1 else GroupsWithout
      }
    }

    private def dictionary(
        bytes: Array[Byte],
        places: Array[Int],
        sizes: Array[Long],
        distinct: Int,
        to: ByteSink): Unit = {
      var entry = 0
      while (entry < distinct) {
        entrySizes(entry) = sizes(firstRow(entry))
        entry += 1
      }
      to.varint(distinct.toLong)
      words.encode(entrySizes, distinct, to)
      entry = 0
      while (entry < distinct) {
        append(bytes, places(firstRow(entry)), entrySizes(entry).toInt, to)
        entry += 1
      }
    }

    /** Finds the distinct values, and a code for each row. Returns -1 if there are too many. */
    private def look(
        bytes: Array[Byte],
        places: Array[Int],
        sizes: Array[Long],
        count: Int,
        most: Int): Int = {
      val mask = Integer.highestOneBit(math.max(most, 8)) * 4 - 1
      Arrays.fill(table, 0, mask + 1, -1)
      var distinct = 0
      var row = 0
      while (row < count) {
        val (place, size) = (places(row), sizes(row).toInt)
        var slot = hash(bytes, place, size) & mask
        var code = table(slot)
        while (code >= 0 && !isSame(bytes, place, size, firstRow(code), places, sizes)) {
          slot = (slot + 1) & mask
          code = table(slot)
        }
        if (code < 0) {
          if (distinct == most) return -1
          code = distinct
          table(slot) = code
          firstRow(code) = row
          distinct += 1
        }
        codes(row) = code.toLong
        row += 1
      }
      distinct
    }

    private def isSame(
        bytes: Array[Byte],
        place: Int,
        size: Int,
        row: Int,
        places: Array[Int],
        sizes: Array[Long]): Boolean = sizes(row) == size && {
      val one = ByteSink.address(place)
      val other = ByteSink.address(places(row))
      var done = 0
      while (done < size && Platform.getLong(bytes, one + done) == Platform.getLong(
          bytes,
          other + done)) done += 8
      done >= size
    }

    private def hash(bytes: Array[Byte], place: Int, size: Int): Int = {
      val start = ByteSink.address(place)
      var mixed = size * Multiplier
      var done = 0
      while (done < size) {
        mixed = (mixed ^ Platform.getLong(bytes, start + done)) * Multiplier
        mixed ^= mixed >>> 32
        done += 8
      }
      (mixed ^ (mixed >>> 29)).toInt
    }

    private def append(bytes: Array[Byte], place: Int, size: Int, to: ByteSink): Unit = {
      val target = to.room(size)
      copy(bytes, place, size, to.bytes, target)
      to.advance(size)
    }
  }

  private val Multiplier = 0x9e3779b97f4a7c15L

  /** Copies whole words: up to seven bytes behind the end are read, and written. */
  def copy(from: Array[Byte], place: Int, size: Int, to: Array[Byte], target: Long): Unit = {
    val start = ByteSink.address(place)
    if (size > LongBytes) {
      Platform.copyMemory(from, start, to, target, size.toLong)
    } else {
      var done = 0
      while (done < size) {
        Platform.putLong(to, target + done, Platform.getLong(from, start + done))
        done += 8
      }
    }
  }

  /** Copies a value, and fills its last word up with zeros. */
  def copyFilledUp(
      from: Array[Byte],
      place: Int,
      size: Int,
      to: Array[Byte],
      target: Long): Unit = if (size > 0) {
    val last = target + ((size - 1) & ~7)
    if (size > LongBytes) Platform.putLong(to, last, 0L)
    copy(from, place, size, to, target)
    val over = size & 7
    if (over != 0) Platform.putLong(to, last, Platform.getLong(to, last) & (1L << 8 * over) - 1)
  }

  /** From here on, a call of the JVM's copy is faster than the loop. */
  private val LongBytes = 128

  /** The values of a column, in a buffer of encoded bytes. */
  final class Decoded {
    var places: Array[Int] = Array.emptyIntArray
    var sizes: Array[Int] = Array.emptyIntArray

    def decode(from: ByteSource, words: Array[Long], count: Int): Unit = {
      if (sizes.length < count) {
        places = new Array[Int](count)
        sizes = new Array[Int](count)
      }
      from.byte() match {
        case Plain =>
          Words.decode(from, words, count)
          place(from, words, count, places, sizes)
        case Dictionary =>
          val distinct = from.count("distinct values", math.min(count, MostDistinct))
          val entryPlaces = new Array[Int](distinct)
          val entrySizes = new Array[Int](distinct)
          Words.decode(from, words, distinct)
          place(from, words, distinct, entryPlaces, entrySizes)
          Words.decode(from, words, count)
          var row = 0
          while (row < count) {
            val code = words(row)
            if (code < 0 || code >= distinct) from.fail(s"value $code of $distinct distinct ones")
            places(row) = entryPlaces(code.toInt)
            sizes(row) = entrySizes(code.toInt)
            row += 1
          }
        case form => from.fail(s"a column of bytes has the unknown form $form")
      }
    }

    private def place(
        from: ByteSource,
        words: Array[Long],
        count: Int,
        places: Array[Int],
        sizes: Array[Int]): Unit = {
      var at = 0L
      val first = from.skip(0)
      var i = 0
      while (i < count) {
        val size = words(i)
        if (size < 0 || size > from.left) from.fail(s"$size bytes where ${from.left} are left")
        sizes(i) = size.toInt
        places(i) = first + at.toInt
        at += size
        if (at > from.left) from.fail(s"values of $at bytes where ${from.left} are left")
        i += 1
      }
      from.skip(at.toInt)
      ()
    }
  }
}
