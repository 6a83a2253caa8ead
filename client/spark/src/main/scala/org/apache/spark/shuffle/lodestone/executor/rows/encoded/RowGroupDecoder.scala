// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.unsafe.Platform

/** Makes the rows of a row group again: each has the bytes that it had before. */
private[encoded] final class RowGroupDecoder {
  import RowGroupDecoder.Form

  private[this] val cells = new Array[Long](RowGroup.MostRows)
  private[this] val startOfRow = new Array[Int](RowGroup.MostRows + 1)

  /** Where the bytes of the next field of a row begin. */
  private[this] val cursors = new Array[Int](RowGroup.MostRows)
  private[this] val texts = ArrayBuffer.empty[Texts.Decoded]
  private[this] val rows = new Array[Byte](RowGroup.MostBytes)
  private[this] var form = new Form(0)
  private[this] var rowCount = 0

  def count: Int = rowCount
  def bytes: Array[Byte] = rows

  /** Where each row begins, and the last one ends. */
  def starts: Array[Int] = startOfRow

  def decode(from: ByteSource, numFields: Int): Unit = {
    if (form.numFields != numFields) form = new Form(numFields)
    rowCount = from.count("rows", RowGroup.MostRows)
    form.read(from)
    if (rowCount * form.fixedBytes > rows.length) from.fail(s"$rowCount rows of $numFields fields")
    Arrays.fill(cursors, 0, rowCount, form.fixedBytes.toInt)
    readTexts(from)
    placeRows(from)
    var word = 0
    while (word < form.nullWords) {
      readWords(from, word)
      word += 1
    }
    fillTexts(from.bytes)
    while (word < form.nullWords + numFields) {
      if (form.kinds(word - form.nullWords) == RowShape.Value) readWords(from, word)
      word += 1
    }
    if (from.left > 0) from.fail(s"${from.left} bytes are left behind a row group")
  }

  /** Reads the places and sizes of all bytes, which give the sizes of rows. */
  private def readTexts(from: ByteSource): Unit = {
    var column = 0
    while (column < form.texts) {
      if (column == texts.length) texts += new Texts.Decoded
      val sizes = texts(column)
      sizes.decode(from, cells, rowCount)
      addSizes(from, sizes.sizes, form.kindOfText(column))
      column += 1
    }
  }

  private def addSizes(from: ByteSource, sizes: Array[Int], kind: Int): Unit = {
    val most = kind match {
      case RowShape.Fixed16 => 16
      case _ => rows.length
    }
    var row = 0
    while (row < rowCount) {
      val size = sizes(row)
      if (size > most) from.fail(s"a field of $size bytes, and at most $most are possible")
      if (kind == Form.Rest && size % 8 != 0) from.fail(s"a row with a rest of $size bytes")
      cursors(row) += (if (kind == RowShape.Fixed16) 16 else RowShape.padded(size))
      if (cursors(row) > rows.length) from.fail(s"a row of ${cursors(row)} bytes in a row group")
      row += 1
    }
  }

  private def placeRows(from: ByteSource): Unit = {
    var at = 0
    var row = 0
    while (row < rowCount) {
      startOfRow(row) = at
      at += cursors(row)
      if (at > rows.length) from.fail(s"a row group of more than ${rows.length} bytes")
      row += 1
    }
    startOfRow(rowCount) = at
  }

  private def readWords(from: ByteSource, word: Int): Unit = {
    Words.decode(from, cells, rowCount)
    val (target, words, starts, count) = (rows, cells, startOfRow, rowCount)
    val offset = ByteSink.address(8 * word)
    var row = 0
    while (row < count) {
      Platform.putLong(target, offset + starts(row), words(row))
      row += 1
    }
  }

  private def fillTexts(encoded: Array[Byte]): Unit = {
    Arrays.fill(cursors, 0, rowCount, form.fixedBytes.toInt)
    var column = 0
    while (column < form.texts) {
      val kind = form.kindOfText(column)
      if (kind == RowShape.Fixed16) clearFixed()
      fillText(encoded, texts(column), form.fieldOfText(column), kind)
      column += 1
    }
  }

  private def clearFixed(): Unit = {
    var row = 0
    while (row < rowCount) {
      val target = ByteSink.address(startOfRow(row) + cursors(row))
      Platform.putLong(rows, target, 0L)
      Platform.putLong(rows, target + 8, 0L)
      row += 1
    }
  }

  private def fillText(
      encoded: Array[Byte],
      text: Texts.Decoded,
      field: Int,
      kind: Int): Unit = {
    val word = 8L * (form.nullWords + field)
    var row = 0
    while (row < rowCount) {
      val start = ByteSink.address(startOfRow(row))
      val cursor = cursors(row)
      val size = text.sizes(row)
      Texts.copyFilledUp(encoded, text.places(row), size, rows, start + cursor)
      if (kind != Form.Rest) {
        val isNull = kind == RowShape.Bytes && RowShape.isNullAt(rows, start, field)
        val place = if (isNull) 0L else cursor.toLong << 32 | size
        Platform.putLong(rows, start + word, place)
        cursors(row) = cursor + (if (kind == RowShape.Fixed16) 16 else RowShape.padded(size))
      }
      row += 1
    }
  }
}

private[encoded] object RowGroupDecoder {

  /** What a row group says of its rows, before their columns. */
  private final class Form(val numFields: Int) {
    val nullWords: Int = (numFields + 63) / 64
    val fixedBytes: Long = 8L * (nullWords.toLong + numFields)
    val kinds = new Array[Byte](numFields)
    private[this] val textFields = new Array[Int](numFields + 1)
    private[this] var textCount = 0

    /** Columns of bytes. The bytes that belong to no field are the last of them. */
    def texts: Int = textCount

    def fieldOfText(column: Int): Int = textFields(column)

    def kindOfText(column: Int): Int = {
      val field = textFields(column)
      if (field == numFields) Form.Rest else kinds(field)
    }

    def read(from: ByteSource): Unit = {
      val form = from.byte()
      if (form > RowGroupEncoder.WithRest) from.fail(s"a row group of the unknown form $form")
      textCount = 0
      var four = 0
      var field = 0
      while (field < numFields) {
        if ((field & 3) == 0) four = from.byte()
        val kind = four & 3
        four >>= 2
        if (kind > RowShape.Fixed16) from.fail(s"a field of the unknown kind $kind")
        kinds(field) = kind.toByte
        if (kind != RowShape.Value) addText(field)
        field += 1
      }
      if (form == RowGroupEncoder.WithRest) {
        if (texts > 0) from.fail("fields and a rest refer to the same bytes")
        addText(numFields)
      }
    }

    private def addText(field: Int): Unit = {
      textFields(textCount) = field
      textCount += 1
    }
  }

  private object Form {

    /** The bytes behind the words, to which no field refers. */
    val Rest = 3
  }
}
