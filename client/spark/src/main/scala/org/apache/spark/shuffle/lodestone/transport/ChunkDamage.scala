// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import io.netty.buffer.ByteBuf

import org.apache.spark.shuffle.lodestone.plan.DamagedSegment
import org.apache.spark.shuffle.lodestone.wire.{Crc32c, LaidSegment}

/** Compares the bytes of a chunk with the lengths and checksums of its segments. */
private[lodestone] object ChunkDamage {

  /** Returns what is wrong with the bytes: the first segment that differs. */
  def apply(
      reduceId: Int,
      segments: Array[LaidSegment],
      bytes: ByteBuf): Option[DamagedChunkException] = {
    val crc = new Crc32c(bytes.nioBuffers())
    var left = bytes.readableBytes()
    val broken = segments.find { segment =>
      left -= segment.length
      left < 0 || crc.next(segment.length) != segment.crc32c
    }
    val what = broken match {
      case Some(segment) =>
        val differs = if (left < 0) "not all of its bytes" else "another checksum"
        Some(s"the block of map ${segment.mapIndex} has $differs")
      case None if left > 0 => Some(s"a chunk has $left bytes too many")
      case None => None
    }
    what.map { text =>
      val damaged = DamagedSegment.of(reduceId, broken.getOrElse(segments.last))
      new DamagedChunkException(text, damaged)
    }
  }
}
