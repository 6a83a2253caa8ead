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

/** Totals of what this service merged of the shuffle. */
private[spark] final case class FinalizeMergeReply(
    incarnation: Long,
    partitions: Int,
    segments: Long,
    bytes: Long)
    extends Message {
  override def typeId: Int = FinalizeMergeReply.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    out.long(incarnation)
    out.int(partitions)
    out.long(segments)
    out.long(bytes)
  }
}

private[spark] object FinalizeMergeReply extends Codec[FinalizeMergeReply](73) {
  override private[wire] def read(in: WireReader): FinalizeMergeReply =
    FinalizeMergeReply(in.long(), in.int(), in.long(), in.long())
}
