// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

private[spark] final case class FinalizeMerge(shuffle: ShuffleAddress) extends Message {
  override def typeId: Int = FinalizeMerge.typeId
  override private[wire] def write(out: WireWriter): Unit = shuffle.write(out)
}

private[spark] object FinalizeMerge extends Codec[FinalizeMerge](72) {
  override private[wire] def read(in: WireReader): FinalizeMerge =
    FinalizeMerge(ShuffleAddress.read(in))
}

/**
 * Makes a service hide the segments of all other map attempts of a finalized shuffle. It must be
 * sent before a reader reads.
 */
private[spark] final case class RetainAttempts(shuffle: ShuffleAddress, mapIds: Array[Long])
    extends Message {
  override def typeId: Int = RetainAttempts.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    shuffle.write(out)
    out.seq(mapIds)(out.long)
  }
}

private[spark] object RetainAttempts extends Codec[RetainAttempts](95) {

  /** About half of the service's limit for one message. */
  val MaxAttempts = 500000

  private val MapIdBytes = 8

  override private[wire] def read(in: WireReader): RetainAttempts =
    RetainAttempts(ShuffleAddress.read(in), in.seq(MapIdBytes)(in.long()))
}

/**
 * The totals of the segments that this service merged and shows.
 *
 * @param lostSegments
 *   the number of segments that the service acknowledged and could not keep
 * @param checksum
 *   the checksum of the [[Ledger]] of both
 */
private[spark] final case class FinalizeMergeReply(
    incarnation: Long,
    partitions: Int,
    segments: Long,
    bytes: Long,
    lostSegments: Long,
    checksum: Long)
    extends Message {

  /** The ledger of all acknowledged segments, kept or lost. */
  def ledger: Ledger = Ledger(segments + lostSegments, checksum)

  override def typeId: Int = FinalizeMergeReply.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    out.long(incarnation)
    out.int(partitions)
    out.long(segments)
    out.long(bytes)
    out.long(lostSegments)
    out.long(checksum)
  }
}

private[spark] object FinalizeMergeReply extends Codec[FinalizeMergeReply](73) {
  override private[wire] def read(in: WireReader): FinalizeMergeReply =
    FinalizeMergeReply(in.long(), in.int(), in.long(), in.long(), in.long(), in.long())
}
