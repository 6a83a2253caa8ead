// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/**
 * The number of segments in a set, and the sum of their hashes, which does not depend on their
 * order. A map task keeps a ledger of the segments that services acknowledged. A service keeps a
 * ledger of its own segments (docs/protocol.md).
 */
private[spark] final case class Ledger(segments: Long, checksum: Long) {
  def and(other: Ledger): Ledger =
    Ledger(segments + other.segments, checksum + other.checksum)
}

private[spark] object Ledger {
  val Empty: Ledger = Ledger(0, 0)

  def of(mapIndex: Int, mapId: Long, segment: Segment): Ledger = {
    val ofMap = mix(mapId)
    val ofBlock = mix(ofMap ^ pair(mapIndex, segment.reduceId))
    val ofBytes = mix(ofBlock ^ pair(segment.length, segment.crc32c))
    Ledger(1, mix(ofBytes ^ pair(segment.sequence, segment.records)))
  }

  private def pair(high: Int, low: Int): Long = (high.toLong << 32) | (low & 0xffffffffL)

  /** The finalizer of SplitMix64. */
  private def mix(word: Long): Long = {
    val a = word + 0x9e3779b97f4a7c15L
    val b = (a ^ (a >>> 30)) * 0xbf58476d1ce4e5b9L
    val c = (b ^ (b >>> 27)) * 0x94d049bb133111ebL
    c ^ (c >>> 31)
  }
}
