// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** Makes a map attempt visible, if the service has exactly the segments that it acknowledged. */
private[spark] final case class CommitMap(
    shuffle: ShuffleAddress,
    mapIndex: Int,
    mapId: Long,
    acknowledged: Ledger)
    extends Message(CommitMap)

private[spark] object CommitMap extends Codec[CommitMap](89) {
  override private[wire] def read(in: WireReader): CommitMap =
    CommitMap(ShuffleAddress.read(in), in.int(), in.long(), Ledger(in.long(), in.long()))
}

/** Drops the segments of a map attempt. */
private[spark] final case class AbortMap(shuffle: ShuffleAddress, mapIndex: Int, mapId: Long)
    extends Message(AbortMap)

private[spark] object AbortMap extends Codec[AbortMap](90) {
  override private[wire] def read(in: WireReader): AbortMap =
    AbortMap(ShuffleAddress.read(in), in.int(), in.long())
}
