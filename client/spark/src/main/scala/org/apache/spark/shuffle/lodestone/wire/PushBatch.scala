// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** One segment of a batch. `records` is -1 if the writer cannot count them. */
private[spark] final case class Segment(
    reduceId: Int,
    length: Int,
    records: Int,
    crc32c: Int,
    sequence: Int = BlockSequence.Only)

/**
 * The meta of an UploadStream whose body holds the segments one after another. `firstSegment` is
 * the number of the first one among all segments that the attempt pushes. `isWhole`: it pushes
 * nothing else to this service, and commits if the service takes all of them.
 */
private[spark] final case class PushBatch(
    shuffle: ShuffleAddress,
    mapIndex: Int,
    mapId: Long,
    firstSegment: Int,
    isWhole: Boolean,
    segments: Array[Segment])
    extends Message(96)

private[spark] object PushBatch {

  /** The limit of segments in one batch (docs/protocol.md, section 2). */
  val MaxSegments = 65536

  /** The limit of the body of an upload. A service closes the connection above it. */
  val MaxBodyBytes: Long = 64L << 20
}

/**
 * One status per segment, in the order of the request. `isCommitted`: the batch was the whole
 * attempt, which has committed.
 */
private[spark] final case class PushBatchReply(
    incarnation: Long,
    isCommitted: Boolean,
    statuses: Array[Status])
    extends Message(PushBatchReply.typeId)

private[spark] object PushBatchReply extends Codec[PushBatchReply](97) {
  override private[wire] def read(in: WireReader): PushBatchReply =
    PushBatchReply(in.long(), in.bool(), in.bytes().map(Status.of))
}

/**
 * The number of a segment within its block, and a mark of the last one. By these a reader sees
 * whether it has the whole block. If executors keep the map outputs, a block is one segment.
 */
private[spark] object BlockSequence {

  /** The value of a segment that is a whole block, as most are. */
  val Only: Int = last(0)

  def apply(number: Int): Int = number << 1

  def last(sequence: Int): Int = sequence | 1

  def numberOf(sequence: Int): Int = sequence >>> 1

  def isLast(sequence: Int): Boolean = (sequence & 1) == 1
}
