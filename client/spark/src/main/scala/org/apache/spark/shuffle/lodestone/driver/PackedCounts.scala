// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.nio.ByteBuffer

import org.apache.spark.shuffle.lodestone.wire.Ledger

/**
 * The form in which [[PushCounts]] are sent. Each map task sends a ledger of each service to the
 * driver. A ledger has about 11 bytes in this form, and several times that as an object.
 */
private[driver] final class PackedCounts(
    blocks: Long,
    bytes: Long,
    requests: Long,
    acknowledged: Array[Byte],
    unpushed: Map[String, Long],
    unsure: Array[Int])
    extends Serializable {

  /** Returns the counts in place of this object. Java's serialization calls it. */
  def readResolve(): AnyRef =
    PushCounts(
      blocks,
      bytes,
      requests,
      PackedCounts.unpacked(acknowledged),
      unpushed,
      unsure.toSet)
}

private[driver] object PackedCounts {

  /** An index and a number of segments as varints (up to 10 bytes each), and a checksum. */
  private val LongestEntry = 10 + 10 + 8

  def apply(counts: PushCounts): PackedCounts =
    new PackedCounts(
      counts.blocks,
      counts.bytes,
      counts.requests,
      packed(counts.acknowledged),
      counts.unpushed,
      counts.unsure.toArray)

  private def packed(ledgers: Map[Int, Ledger]): Array[Byte] = {
    val out = ByteBuffer.allocate(ledgers.size * LongestEntry)
    ledgers.foreach { case (index, Ledger(segments, checksum)) =>
      putVarint(out, index.toLong)
      putVarint(out, segments)
      out.putLong(checksum)
    }
    java.util.Arrays.copyOf(out.array(), out.position())
  }

  private def unpacked(bytes: Array[Byte]): Map[Int, Ledger] = {
    val in = ByteBuffer.wrap(bytes)
    val all = Map.newBuilder[Int, Ledger]
    while (in.hasRemaining) {
      val index = varint(in).toInt
      val segments = varint(in)
      all += index -> Ledger(segments, in.getLong)
    }
    all.result()
  }

  private def putVarint(out: ByteBuffer, value: Long): Unit = {
    var left = value
    while ((left & ~0x7fL) != 0) {
      out.put(((left & 0x7f) | 0x80).toByte)
      left >>>= 7
    }
    out.put(left.toByte)
    ()
  }

  private def varint(in: ByteBuffer): Long = {
    var value = 0L
    var shift = 0
    var next = in.get()
    while (next < 0) {
      value |= (next & 0x7fL) << shift
      shift += 7
      next = in.get()
    }
    value | (next.toLong << shift)
  }
}
