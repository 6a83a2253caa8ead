// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** Makes a map attempt visible, if the service has exactly the segments that it acknowledged. */
private[spark] final case class CommitMap(
    shuffle: ShuffleAddress,
    mapIndex: Int,
    mapId: Long,
    acknowledged: Ledger)
    extends Message(89)

/** Drops the segments of a map attempt. */
private[spark] final case class AbortMap(shuffle: ShuffleAddress, mapIndex: Int, mapId: Long)
    extends Message(90)
