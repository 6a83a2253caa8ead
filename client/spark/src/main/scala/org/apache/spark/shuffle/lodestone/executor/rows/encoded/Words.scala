// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import org.apache.spark.unsafe.Platform

/**
 * A column of 64-bit words: as differences from the least one (frame of reference), as differences
 * from the word before, or as runs of equal words. Differences take 0, 1, 2, 4 or 8 bytes each. One
 * width serves for a whole column.
 */
private[encoded] object Words {
  private val Reference = 0
  private val Delta = 1
  private val Runs = 2
  private val MethodShift = 4
  private val WidthMask = 0xf

  /** A run is copied faster than read, and yet has to save something. */
  private val LeastRun = 4

  /** Encodes columns. */
  final class Encoder {
    private[this] var least = 0L
    private[this] var range = 0L
    private[this] var leastStep = 0L
    private[this] var stepRange = 0L
    private[this] var changes = 0
    private[this] var values = new Array[Long](0)
    private[this] var lengths = new Array[Long](0)

    /** Encodes the first `count` words. */
    def encode(words: Array[Long], count: Int, to: ByteSink): Unit = {
      measure(words, count)
      val width = widthOf(range)
      if (count >= LeastRun * (changes + 1L) && changes > 0) runs(words, count, to)
      else if (count > 1 && widthOf(stepRange) < width) delta(words, count, to)
      else reference(words, count, to)
    }

    private def measure(words: Array[Long], count: Int): Unit = {
      var low = if (count > 0) words(0) else 0L
      var high = low
      var lowStep = Long.MaxValue
      var highStep = Long.MinValue
      var before = low
      var changed = 0
      var i = 1
      while (i < count) {
        val word = words(i)
        val step = word - before
        low = math.min(low, word)
        high = math.max(high, word)
        lowStep = math.min(lowStep, step)
        highStep = math.max(highStep, step)
        if (step != 0) changed += 1
        before = word
        i += 1
      }
      least = low
      range = high - low
      leastStep = lowStep
      stepRange = highStep - lowStep
      changes = changed
    }

    private def reference(words: Array[Long], count: Int, to: ByteSink): Unit = {
      val width = widthOf(range)
      val base = if (width == 8) 0L else least
      to.byte(Reference << MethodShift | width)
      if (width < 8) to.signed(base)
      val start = to.room(count * width)
      val bytes = to.bytes
      width match {
        case 0 =>
        case 1 =>
          var i = 0
          while (i < count) {
            Platform.putByte(bytes, start + i, (words(i) - base).toByte)
            i += 1
          }
        case 2 =>
          var i = 0
          while (i < count) {
            Platform.putShort(bytes, start + 2L * i, (words(i) - base).toShort)
            i += 1
          }
        case 4 =>
          var i = 0
          while (i < count) {
            Platform.putInt(bytes, start + 4L * i, (words(i) - base).toInt)
            i += 1
          }
        case _ =>
          Platform.copyMemory(words, Platform.LONG_ARRAY_OFFSET, bytes, start, 8L * count)
      }
      to.advance(count * width)
    }

    private def delta(words: Array[Long], count: Int, to: ByteSink): Unit = {
      val width = widthOf(stepRange)
      val base = leastStep
      to.byte(Delta << MethodShift | width)
      to.signed(words(0))
      to.signed(base)
      val start = to.room((count - 1) * width)
      val bytes = to.bytes
      var i = 1
      while (i < count) {
        val step = words(i) - words(i - 1) - base
        val at = start + (i - 1L) * width
        width match {
          case 0 =>
          case 1 => Platform.putByte(bytes, at, step.toByte)
          case 2 => Platform.putShort(bytes, at, step.toShort)
          case _ => Platform.putInt(bytes, at, step.toInt)
        }
        i += 1
      }
      to.advance((count - 1) * width)
    }

    private def runs(words: Array[Long], count: Int, to: ByteSink): Unit = {
      val found = changes + 1
      if (values.length < found) {
        values = new Array[Long](found + found / 2)
        lengths = new Array[Long](values.length)
      }
      var run = 0
      var begin = 0
      var i = 1
      while (i <= count) {
        if (i == count || words(i) != words(begin)) {
          values(run) = words(begin)
          lengths(run) = i.toLong - begin
          run += 1
          begin = i
        }
        i += 1
      }
      val (runValues, runLengths) = (values, lengths)
      to.byte(Runs << MethodShift)
      to.varint(found.toLong)
      plain(runValues, found, to)
      plain(runLengths, found, to)
    }

    /** Runs are not made of runs. */
    private def plain(words: Array[Long], count: Int, to: ByteSink): Unit = {
      measure(words, count)
      reference(words, count, to)
    }
  }

  /** Reads `count` words to the start of the array. */
  def decode(from: ByteSource, words: Array[Long], count: Int): Unit = {
    val head = from.byte()
    val width = head & WidthMask
    head >> MethodShift match {
      case Reference => decodeReference(from, width, words, count)
      case Delta if count > 1 && width < 8 => decodeDelta(from, width, words, count)
      case Runs if width == 0 => decodeRuns(from, words, count)
      case _ => from.fail(s"a column of $count words has the unknown form $head")
    }
  }

  private def decodeReference(
      from: ByteSource,
      width: Int,
      words: Array[Long],
      count: Int): Unit = {
    val base = if (width == 8) 0L else from.signed()
    val bytes = from.bytes
    val start = ByteSink.address(from.skip(bytesOf(from, width, count)))
    width match {
      case 0 => java.util.Arrays.fill(words, 0, count, base)
      case 1 =>
        var i = 0
        while (i < count) {
          words(i) = (Platform.getByte(bytes, start + i) & 0xffL) + base
          i += 1
        }
      case 2 =>
        var i = 0
        while (i < count) {
          words(i) = (Platform.getShort(bytes, start + 2L * i) & 0xffffL) + base
          i += 1
        }
      case 4 =>
        var i = 0
        while (i < count) {
          words(i) = (Platform.getInt(bytes, start + 4L * i) & 0xffffffffL) + base
          i += 1
        }
      case _ => Platform.copyMemory(bytes, start, words, Platform.LONG_ARRAY_OFFSET, 8L * count)
    }
  }

  private def decodeDelta(
      from: ByteSource,
      width: Int,
      words: Array[Long],
      count: Int): Unit = {
    words(0) = from.signed()
    val base = from.signed()
    val bytes = from.bytes
    val start = ByteSink.address(from.skip(bytesOf(from, width, count - 1)))
    var word = words(0)
    var i = 1
    while (i < count) {
      val at = start + (i - 1L) * width
      val step = width match {
        case 0 => 0L
        case 1 => Platform.getByte(bytes, at) & 0xffL
        case 2 => Platform.getShort(bytes, at) & 0xffffL
        case _ => Platform.getInt(bytes, at) & 0xffffffffL
      }
      word += step + base
      words(i) = word
      i += 1
    }
  }

  private def decodeRuns(from: ByteSource, words: Array[Long], count: Int): Unit = {
    val runs = from.count("runs", count / LeastRun)
    val values = new Array[Long](runs)
    val lengths = new Array[Long](runs)
    plain(from, values)
    plain(from, lengths)
    var at = 0
    var run = 0
    while (run < runs) {
      val length = lengths(run)
      if (length < 1 || length > count - at) from.fail(s"a run of $length words at $at of $count")
      java.util.Arrays.fill(words, at, at + length.toInt, values(run))
      at += length.toInt
      run += 1
    }
    if (at != count) from.fail(s"runs of $at words instead of $count")
  }

  private def plain(from: ByteSource, words: Array[Long]): Unit = {
    val head = from.byte()
    if (head >> MethodShift != Reference) from.fail(s"runs of the unknown form $head")
    decodeReference(from, head & WidthMask, words, words.length)
  }

  private def bytesOf(from: ByteSource, width: Int, count: Int): Int = {
    if (width > 8 || (width & (width - 1)) != 0) from.fail(s"words of $width bytes")
    width * count
  }

  /** The bytes that numbers from 0 to `range` need, where a negative range is above 2^63. */
  private def widthOf(range: Long): Int =
    if (range == 0) 0
    else if (range < 0) 8
    else if (range < (1L << 8)) 1
    else if (range < (1L << 16)) 2
    else if (range < (1L << 32)) 4
    else 8
}
