// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import org.apache.spark.unsafe.Platform

/**
 * Encodes batches of rows column by column. What one batch shows of its rows serves for the next
 * one too.
 */
private[encoded] final class BatchEncoder {
  private[this] val words = new Words.Encoder
  private[this] val texts = new Texts.Encoder(words)
  private[this] val cells = new Array[Long](RowBatch.MostRows)
  private[this] val places = new Array[Int](RowBatch.MostRows)

  /** Where the bytes of the next field of a row are expected. */
  private[this] val cursors = new Array[Int](RowBatch.MostRows)
  private[this] var shape = new RowShape(0)
  private[this] var withoutDictionary = Array.emptyIntArray

  /** Returns false if these are not rows of so many fields. */
  def encode(batch: RowBatch, numFields: Int, to: ByteSink): Boolean = {
    if (shape.numFields != numFields || withoutDictionary.length != numFields) {
      shape = new RowShape(numFields)
      shape.guess(batch, math.min(batch.count, BatchEncoder.FirstRows))
      withoutDictionary = new Array[Int](numFields)
    }
    areRows(batch) && (tryEncode(batch, to, isWhole = true) || {
      shape.guess(batch, batch.count)
      tryEncode(batch, to, isWhole = true)
    } || {
      shape.forget()
      tryEncode(batch, to, isWhole = false)
    })
  }

  private def areRows(batch: RowBatch): Boolean = {
    var row = 0
    while (row < batch.count && batch.sizes(row) >= shape.fixedBytes && batch.sizes(row) % 8 == 0)
      row += 1
    row == batch.count
  }

  /**
   * @param isWhole
   *   whether the fields refer to all bytes of the row
   * @return
   *   false if they do not
   */
  private def tryEncode(batch: RowBatch, to: ByteSink, isWhole: Boolean): Boolean = {
    to.clear()
    to.varint(batch.count.toLong)
    to.byte(if (isWhole) BatchEncoder.Whole else BatchEncoder.WithRest)
    kinds(to)
    java.util.Arrays.fill(cursors, 0, batch.count, shape.fixedBytes)
    val isEncoded = if (isWhole) bytes(batch, to) && areAtEnd(batch) else rest(batch, to)
    if (isEncoded) values(batch, to)
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
  private def values(batch: RowBatch, to: ByteSink): Unit = {
    var word = 0
    while (word < shape.nullWords + shape.numFields) {
      val isValue = word < shape.nullWords || shape.kind(word - shape.nullWords) == RowShape.Value
      if (isValue) column(batch, word, to)
      word += 1
    }
  }

  private def column(batch: RowBatch, word: Int, to: ByteSink): Unit = {
    val (bytes, starts, count, into) = (batch.bytes, batch.starts, batch.count, cells)
    val offset = ByteSink.address(8 * word)
    var row = 0
    while (row < count) {
      into(row) = Platform.getLong(bytes, offset + starts(row))
      row += 1
    }
    words.encode(into, count, to)
  }

  private def bytes(batch: RowBatch, to: ByteSink): Boolean = {
    var field = 0
    while (field < shape.numFields) {
      if (shape.kind(field) != RowShape.Value) {
        if (!findBytes(batch, field)) return false
        withoutDictionary(field) = texts.encode(
          batch.bytes,
          places,
          cells,
          batch.count,
          withoutDictionary(field),
          to)
      }
      field += 1
    }
    true
  }

  /** Finds the places and sizes of a field's bytes. Returns false if they are not in order. */
  private def findBytes(batch: RowBatch, field: Int): Boolean = {
    val bytes = batch.bytes
    val isSlot = shape.kind(field) == RowShape.Slot16
    var row = 0
    while (row < batch.count) {
      val start = ByteSink.address(batch.starts(row))
      val word = Platform.getLong(bytes, start + 8L * (shape.nullWords + field))
      val cursor = cursors(row)
      val size = word.toInt
      places(row) = batch.starts(row) + cursor
      cells(row) = size.toLong
      if (!isSlot && word == 0 && RowShape.isNullAt(bytes, start, field)) {
        places(row) = batch.starts(row)
      } else {
        val takes = if (isSlot) 16 else RowShape.padded(size)
        val isHere = (word >>> 32).toInt == cursor && size >= 0 && size <= takes &&
          takes <= batch.sizes(row) - cursor
        if (!isHere || !isFilledUp(bytes, start + cursor, size, takes)) return false
        if (!isSlot && RowShape.isNullAt(bytes, start, field)) return false
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

  private def areAtEnd(batch: RowBatch): Boolean = {
    var row = 0
    while (row < batch.count && cursors(row) == batch.sizes(row)) row += 1
    row == batch.count
  }

  /** All that follows the words, as bytes. */
  private def rest(batch: RowBatch, to: ByteSink): Boolean = {
    var row = 0
    while (row < batch.count) {
      cells(row) = batch.sizes(row).toLong - shape.fixedBytes
      places(row) = batch.starts(row) + shape.fixedBytes
      row += 1
    }
    texts.encode(batch.bytes, places, cells, batch.count, 1, to)
    true
  }
}

private[encoded] object BatchEncoder {

  /** Fields refer to all bytes behind the words of a row. */
  val Whole = 0

  /** No field refers to them. */
  val WithRest = 1

  /** So many rows tell what most rows are like. */
  private val FirstRows = 64
}
