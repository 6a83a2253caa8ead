// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.unsafe.Platform

/**
 * Reads what [[ByteSink]] wrote. Nothing is read behind the end: damaged bytes are an error, and
 * neither a crash nor a row.
 */
private[encoded] final class ByteSource {
  private[this] var held: Array[Byte] = _
  private[this] var at = 0
  private[this] var end = 0

  /** Behind the bytes there must be room for a word, as in a [[ByteSink]]. */
  def open(bytes: Array[Byte], start: Int, length: Int): Unit = {
    require(
      bytes.length - start - length >= ByteSink.WordBytes,
      "there is no room behind the bytes")
    held = bytes
    at = start
    end = start + length
  }

  def bytes: Array[Byte] = held
  def left: Int = end - at

  /** Passes so many bytes, and returns the index of the first. */
  def skip(count: Int): Int = {
    if (count < 0 || count > left) fail(s"$count bytes are expected where $left are left")
    val start = at
    at += count
    start
  }

  def byte(): Int = Platform.getByte(held, ByteSink.address(skip(1))) & 0xff

  def varint(): Long = {
    var value = 0L
    var shift = 0
    var next = 0x80
    while ((next & 0x80) != 0) {
      if (shift > 63) fail("a number of more than 64 bits")
      next = byte()
      value |= (next & 0x7fL) << shift
      shift += 7
    }
    value
  }

  def signed(): Long = {
    val value = varint()
    (value >>> 1) ^ -(value & 1)
  }

  /** A number from 0 to `most`. */
  def count(what: String, most: Int): Int = {
    val value = varint()
    if (value < 0 || value > most) fail(s"$value $what, and at most $most are possible")
    value.toInt
  }

  def fail(what: String): Nothing = throw new BrokenRowsException(s"encoded rows: $what")
}
