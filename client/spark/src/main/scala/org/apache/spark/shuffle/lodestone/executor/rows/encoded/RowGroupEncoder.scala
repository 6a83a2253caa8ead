// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import org.apache.spark.unsafe.Platform

/**
 * Encodes row groups column by column. What is found out about the rows of one serves for the next
 * one too.
 */
private[encoded] final class RowGroupEncoder {
  private[this] val words = new Words.Encoder
  private[this] val texts = new Texts.Encoder(words)
  private[this] val cells = new Array[Long](RowGroup.MostRows)
  private[this] val places = new Array[Int](RowGroup.MostRows)

  /** Where the bytes of the next field of a row are expected. */
  private[this] val cursors = new Array[Int](RowGroup.MostRows)
  private[this] var shape = new RowShape(0)
  private[this] var withoutDictionary = Array.emptyIntArray

  /** So many groups are encoded with a rest, without another look. */
  private[this] var groupsWithRest = 0

  /** Returns false if these are not rows of so many fields. */
  def encode(group: RowGroup, numFields: Int, to: ByteSink): Boolean = {
    if (shape.numFields != numFields) shape = new RowShape(numFields)
    areRows(group) && {
      if (withoutDictionary.length != numFields) begin(group)
      encodeRows(group, to)
    }
  }

  private def begin(group: RowGroup): Unit = {
    withoutDictionary = new Array[Int](shape.numFields)
    shape.guess(group, math.min(group.count, RowGroupEncoder.FirstRows))
  }

  private def encodeRows(group: RowGroup, to: ByteSink): Boolean =
    if (groupsWithRest > 0) {
      groupsWithRest -= 1
      tryEncode(group, to, isWhole = false)
    } else {
      tryEncode(group, to, isWhole = true) || {
        shape.guess(group, group.count)
        tryEncode(group, to, isWhole = true)
      } || {
        shape.forget()
        groupsWithRest = RowGroupEncoder.GroupsWithRest
        tryEncode(group, to, isWhole = false)
      }
    }

  private def areRows(group: RowGroup): Boolean = {
    var row = 0
    while (row < group.count && group.sizes(row) >= shape.fixedBytes && group.sizes(row) % 8 == 0)
      row += 1
    row == group.count
  }

  /**
   * @param isWhole
   *   whether the fields refer to all bytes of the row
   * @return
   *   false if they do not
   */
  private def tryEncode(group: RowGroup, to: ByteSink, isWhole: Boolean): Boolean = {
    to.clear()
    to.varint(group.count.toLong)
    to.byte(if (isWhole) RowGroupEncoder.Whole else RowGroupEncoder.WithRest)
    kinds(to)
    java.util.Arrays.fill(cursors, 0, group.count, shape.fixedBytes)
    val isEncoded = if (isWhole) bytes(group, to) && areAtEnd(group) else rest(group, to)
    if (isEncoded) values(group, to)
    isEncoded
  }

  /** Four fields in a byte. */
  private def kinds(to: ByteSink): Unit = {
    var field = 0
    while (field < shape.numFields) {
      var four = 0
      var i = 0
      while (i < 4 && field < shape.numFields) {
        four |= shape.kind(field) << (2 * i)
        field += 1
        i += 1
      }
      to.byte(four)
    }
  }

  /** The bits of null fields, then the fields that are values. */
  private def values(group: RowGroup, to: ByteSink): Unit = {
    var word = 0
    while (word < shape.nullWords + shape.numFields) {
      val isValue = word < shape.nullWords || shape.kind(word - shape.nullWords) == RowShape.Value
      if (isValue) column(group, word, to)
      word += 1
    }
  }

  private def column(group: RowGroup, word: Int, to: ByteSink): Unit = {
    val (bytes, starts, count, into) = (group.bytes, group.starts, group.count, cells)
    val offset = ByteSink.address(8 * word)
    var row = 0
    while (row < count) {
      into(row) = Platform.getLong(bytes, offset + starts(row))
      row += 1
    }
    words.encode(into, count, to)
  }

  private def bytes(group: RowGroup, to: ByteSink): Boolean = {
    var field = 0
    while (field < shape.numFields) {
      if (shape.kind(field) != RowShape.Value) {
        if (!findBytes(group, field)) return false
        withoutDictionary(field) = texts.encode(
          group.bytes,
          places,
          cells,
          group.count,
          withoutDictionary(field),
          to)
      }
      field += 1
    }
    true
  }

  /** Finds the places and sizes of a field's bytes. Returns false if they are not in order. */
  private def findBytes(group: RowGroup, field: Int): Boolean = {
    val bytes = group.bytes
    val isFixed = shape.kind(field) == RowShape.Fixed16
    var row = 0
    while (row < group.count) {
      val start = ByteSink.address(group.starts(row))
      val word = Platform.getLong(bytes, start + 8L * (shape.nullWords + field))
      val cursor = cursors(row)
      val size = word.toInt
      places(row) = group.starts(row) + cursor
      cells(row) = size.toLong
      if (!isFixed && word == 0 && RowShape.isNullAt(bytes, start, field)) {
        places(row) = group.starts(row)
      } else {
        val takes = if (isFixed) 16 else RowShape.padded(size)
        val isHere = (word >>> 32).toInt == cursor && size >= 0 && size <= takes &&
          takes <= group.sizes(row) - cursor
        if (!isHere || !isFilledUp(bytes, start + cursor, size, takes)) return false
        if (!isFixed && RowShape.isNullAt(bytes, start, field)) return false
        cursors(row) = cursor + takes
      }
      row += 1
    }
    true
  }

  /** True if all bytes behind the first `size` are zero. */
  private def isFilledUp(bytes: Array[Byte], address: Long, size: Int, takes: Int): Boolean = {
    var at = size & ~7
    var left = 0L
    if (at < size) {
      left = Platform.getLong(bytes, address + at) >>> (8 * (size & 7))
      at += 8
    }
    while (at < takes) {
      left |= Platform.getLong(bytes, address + at)
      at += 8
    }
    left == 0
  }

  private def areAtEnd(group: RowGroup): Boolean = {
    var row = 0
    while (row < group.count && cursors(row) == group.sizes(row)) row += 1
    row == group.count
  }

  /** All that follows the words, as bytes. */
  private def rest(group: RowGroup, to: ByteSink): Boolean = {
    var row = 0
    while (row < group.count) {
      cells(row) = group.sizes(row).toLong - shape.fixedBytes
      places(row) = group.starts(row) + shape.fixedBytes
      row += 1
    }
    texts.encode(group.bytes, places, cells, group.count, 1, to)
    true
  }
}

private[encoded] object RowGroupEncoder {

  /** Fields refer to all bytes behind the words of a row. */
  val Whole = 0

  /** No field refers to them. */
  val WithRest = 1

  /** So many rows tell what most rows are like. */
  private val FirstRows = 64

  /** Rows whose fields do not refer to all of their bytes are seldom alone. */
  private val GroupsWithRest = 16
}
