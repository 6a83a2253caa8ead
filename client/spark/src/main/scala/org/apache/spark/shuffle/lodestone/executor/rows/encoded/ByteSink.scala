// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.util.Arrays

import org.apache.spark.unsafe.Platform

/**
 * Bytes that grow, in little-endian order. Behind the last byte there is always room for one word,
 * so that short values are copied word by word.
 */
private[encoded] final class ByteSink(initialBytes: Int) {
  private[this] var held = new Array[Byte](initialBytes)
  private[this] var filled = 0

  def bytes: Array[Byte] = held
  def size: Int = filled
  def clear(): Unit = filled = 0

  /** Makes room for so many bytes, and returns their address. [[advance]] adds them. */
  def room(count: Int): Long = {
    val least = filled.toLong + count + ByteSink.WordBytes
    if (least > held.length) held = Arrays.copyOf(held, math.max(least, held.length * 2L).toInt)
    ByteSink.address(filled)
  }

  def advance(count: Int): Unit = filled += count

  def byte(value: Int): Unit = {
    Platform.putByte(held, room(1), value.toByte)
    filled += 1
  }

  /** Seven bits in each byte, the low ones first. */
  def varint(value: Long): Unit = {
    var left = value
    while ((left & ~0x7fL) != 0) {
      byte((left | 0x80).toInt)
      left >>>= 7
    }
    byte(left.toInt)
  }

  /** A number that may be negative: small ones take few bytes. */
  def signed(value: Long): Unit = varint((value << 1) ^ (value >> 63))
}

private[encoded] object ByteSink {
  val WordBytes = 8

  def address(index: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + index
}
