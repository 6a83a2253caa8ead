// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** The map indexes that a reader wants: `start <= mapIndex < end`. */
private[spark] final case class MapRange(start: Int, end: Int)

private[spark] object MapRange {
  val All: MapRange = MapRange(0, Int.MaxValue)
}

private[spark] final case class SegmentLayout(
    shuffle: ShuffleAddress,
    maps: MapRange,
    reduceIds: Array[Int])
    extends Message(86)

/** One segment of a partition. [[BlockSequence]] explains `sequence`. */
private[spark] final case class LaidSegment(
    mapIndex: Int,
    mapId: Long,
    sequence: Int,
    length: Int,
    records: Int,
    crc32c: Int)

/** Segments in consecutive slots, from the slot `first` on. */
private[spark] final case class LaidRun(first: Int, segments: Array[LaidSegment])

/** A layout. `status` is UnknownPartition, and there are no runs, if nothing was pushed. */
private[spark] final case class PartitionLayout(
    reduceId: Int,
    status: Status,
    runs: Array[LaidRun])

/** `format` is the one that the shuffle was registered with. */
private[spark] final case class SegmentLayoutReply(
    incarnation: Long,
    format: String,
    partitions: Array[PartitionLayout])
    extends Message(SegmentLayoutReply.typeId)

private[spark] object SegmentLayoutReply extends Codec[SegmentLayoutReply](94) {
  val SegmentBytes = 28
  private val MinRunBytes = 8
  private val MinPartitionBytes = 9

  override private[wire] def read(in: WireReader): SegmentLayoutReply =
    SegmentLayoutReply(
      in.long(),
      in.string(),
      in.seq(MinPartitionBytes) {
        PartitionLayout(
          in.int(),
          Status.of(in.byte()),
          in.seq(MinRunBytes)(LaidRun(in.int(), readSegments(in))))
      })

  private def readSegments(in: WireReader): Array[LaidSegment] =
    in.seq(SegmentBytes) {
      LaidSegment(in.int(), in.long(), in.int(), in.int(), in.int(), in.int())
    }
}
