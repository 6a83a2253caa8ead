// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** One generation of one shuffle, at one incarnation of a service. */
private[spark] final case class ShuffleAddress(
    app: Application,
    incarnation: Long,
    shuffleId: Int,
    generation: Int)

private[spark] object ShuffleAddress {
  private[wire] def read(in: WireReader): ShuffleAddress =
    ShuffleAddress(Application.read(in), in.long(), in.int(), in.int())
}

/** Says whether executors keep the blocks that they push. */
private[spark] sealed abstract class ShuffleMode(val code: Byte) extends WireCode

private[spark] object ShuffleMode {
  case object Merge extends ShuffleMode(0)
  case object Remote extends ShuffleMode(1)

  def of(code: Byte): ShuffleMode = code match {
    case Merge.code => Merge
    case Remote.code => Remote
    case other => throw new MalformedMessageException(s"unknown mode $other of a shuffle")
  }
}

private[spark] final case class RegisterShuffle(
    shuffle: ShuffleAddress,
    mode: ShuffleMode,
    numMaps: Int,
    numPartitions: Int,
    format: String)
    extends Message(RegisterShuffle)

private[spark] object RegisterShuffle extends Codec[RegisterShuffle](84) {

  /** Segments are bytes of blocks in the format of Spark's own writers. */
  val SparkStream = "spark-stream"

  override private[wire] def read(in: WireReader): RegisterShuffle =
    RegisterShuffle(
      ShuffleAddress.read(in),
      ShuffleMode.of(in.byte()),
      in.int(),
      in.int(),
      in.string())
}
