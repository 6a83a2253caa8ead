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
 * Totals of what this service merged of the shuffle.
 *
 * @param lostSegments
 *   segments that it had acknowledged and could not keep
 * @param checksum
 *   of the [[Ledger]] of both
 */
private[spark] final case class FinalizeMergeReply(
    incarnation: Long,
    partitions: Int,
    segments: Long,
    bytes: Long,
    lostSegments: Long,
    checksum: Long)
    extends Message {

  /** Everything that was acknowledged to map tasks is in it, kept or known to be lost. */
  def accountsFor(acknowledged: Ledger): Boolean = {
    val known = segments + lostSegments
    // More is fine: an answer may have been lost on its way to a map task.
    known > acknowledged.segments || Ledger(known, checksum) == acknowledged
  }

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
