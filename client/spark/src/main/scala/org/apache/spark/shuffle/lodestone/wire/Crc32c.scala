// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import java.nio.ByteBuffer
import java.util.zip.CRC32C

/** CRC-32C (Castagnoli). The JDK has it from Java 9 on, so the plugin needs Java 11. */
private[lodestone] object Crc32c {

  /** Returns the checksum of the remaining bytes, and consumes them. */
  def of(bytes: ByteBuffer): Int = new Crc32c(Array(bytes)).next(bytes.remaining())
}

/**
 * Computes checksums of consecutive parts of bytes that lie in several buffers, as a network
 * delivers them, without a copy. It consumes the buffers.
 */
private[lodestone] final class Crc32c(pieces: Array[ByteBuffer]) {
  private val crc = new CRC32C
  private var piece = 0

  /** Returns the checksum of the next `length` bytes, which must exist. */
  def next(length: Int): Int = {
    crc.reset()
    var left = length
    while (left > 0) {
      val bytes = pieces(piece)
      if (bytes.hasRemaining) {
        val end = bytes.limit()
        val count = math.min(left, bytes.remaining())
        bytes.limit(bytes.position() + count)
        crc.update(bytes)
        bytes.limit(end)
        left -= count
      } else {
        piece += 1
      }
    }
    crc.getValue.toInt
  }
}
