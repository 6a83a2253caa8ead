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
 * the number of the first one among all segments that the attempt pushes.
 */
private[spark] final case class PushBatch(
    shuffle: ShuffleAddress,
    mapIndex: Int,
    mapId: Long,
    firstSegment: Int,
    segments: Array[Segment])
    extends Message {
  override def typeId: Int = PushBatch.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    shuffle.write(out)
    out.int(mapIndex)
    out.long(mapId)
    out.int(firstSegment)
    out.seq(segments) { segment =>
      out.int(segment.reduceId)
      out.int(segment.sequence)
      out.int(segment.length)
      out.int(segment.records)
      out.int(segment.crc32c)
    }
  }
}

private[spark] object PushBatch extends Codec[PushBatch](93) {

  /** The limit of segments in one batch (docs/protocol.md, section 2). */
  val MaxSegments = 65536

  private val SegmentBytes = 20

  override private[wire] def read(in: WireReader): PushBatch =
    PushBatch(
      ShuffleAddress.read(in),
      in.int(),
      in.long(),
      in.int(),
      in.seq(SegmentBytes)(readSegment(in)))

  private def readSegment(in: WireReader): Segment = {
    val (reduceId, sequence) = (in.int(), in.int())
    Segment(reduceId, in.int(), in.int(), in.int(), sequence)
  }
}

/** One status per segment, in the order of the request. */
private[spark] final case class PushBatchReply(incarnation: Long, statuses: Array[Status])
    extends Message {
  override def typeId: Int = PushBatchReply.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    out.long(incarnation)
    out.bytes(statuses.map(_.code))
  }
}

private[spark] object PushBatchReply extends Codec[PushBatchReply](71) {
  override private[wire] def read(in: WireReader): PushBatchReply =
    PushBatchReply(in.long(), in.bytes().map(Status.of))
}
