// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** One generation of one shuffle, at one incarnation of a service. */
private[spark] final case class ShuffleAddress(
    app: Application,
    incarnation: Long,
    shuffleId: Int,
    generation: Int)

/** Says whether executors keep the blocks that they push. */
private[spark] sealed abstract class ShuffleMode(val code: Byte) extends WireCode

private[spark] object ShuffleMode {
  case object Merge extends ShuffleMode(0)
  case object Remote extends ShuffleMode(1)
}

private[spark] final case class RegisterShuffle(
    shuffle: ShuffleAddress,
    mode: ShuffleMode,
    numMaps: Int,
    numPartitions: Int,
    format: String)
    extends Message(84)
