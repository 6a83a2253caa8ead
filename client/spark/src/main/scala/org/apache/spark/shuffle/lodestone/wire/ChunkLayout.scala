// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** The map indexes that a reader wants: `start <= mapIndex < end`. */
private[spark] final case class MapRange(start: Int, end: Int) {
  private[wire] def write(out: WireWriter): Unit = {
    out.int(start)
    out.int(end)
  }
}

private[spark] object MapRange {
  val All: MapRange = MapRange(0, Int.MaxValue)

  private[wire] def read(in: WireReader): MapRange = MapRange(in.int(), in.int())
}

private[spark] final case class ChunkLayout(
    shuffle: ShuffleAddress,
    maps: MapRange,
    reduceIds: Array[Int])
    extends Message {
  override def typeId: Int = ChunkLayout.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    shuffle.write(out)
    maps.write(out)
    out.ints(reduceIds)
  }
}

private[spark] object ChunkLayout extends Codec[ChunkLayout](74) {
  override private[wire] def read(in: WireReader): ChunkLayout =
    ChunkLayout(ShuffleAddress.read(in), MapRange.read(in), in.ints())
}

/** One block within a chunk. */
private[spark] final case class LaidSegment(
    mapIndex: Int,
    mapId: Long,
    length: Int,
    records: Long,
    crc32c: Int)

/** One chunk: the blocks in it, in the order of their bytes. */
private[spark] final case class Chunk(segments: Array[LaidSegment]) {
  def sizeBytes: Long = segments.foldLeft(0L)(_ + _.length)
}

/** `status` is UnknownPartition, with no chunks, where nothing was pushed for the partition. */
private[spark] final case class PartitionLayout(reduceId: Int, status: Status, chunks: Array[Chunk])

/** In the order asked. */
private[spark] final case class ChunkLayoutReply(
    incarnation: Long,
    partitions: Array[PartitionLayout])
    extends Message {
  override def typeId: Int = ChunkLayoutReply.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    out.long(incarnation)
    out.seq(partitions) { partition =>
      out.int(partition.reduceId)
      out.byte(partition.status.code.toInt)
      out.seq(partition.chunks)(chunk => out.seq(chunk.segments)(writeSegment(out, _)))
    }
  }

  private def writeSegment(out: WireWriter, segment: LaidSegment): Unit = {
    out.int(segment.mapIndex)
    out.long(segment.mapId)
    out.int(segment.length)
    out.long(segment.records)
    out.int(segment.crc32c)
  }
}

private[spark] object ChunkLayoutReply extends Codec[ChunkLayoutReply](75) {
  val SegmentBytes = 28
  private val MinChunkBytes = 4
  private val MinPartitionBytes = 9

  override private[wire] def read(in: WireReader): ChunkLayoutReply =
    ChunkLayoutReply(
      in.long(),
      in.seq(MinPartitionBytes) {
        PartitionLayout(
          in.int(),
          Status.of(in.byte()),
          in.seq(MinChunkBytes)(Chunk(readSegments(in))))
      })

  private def readSegments(in: WireReader): Array[LaidSegment] =
    in.seq(SegmentBytes) {
      LaidSegment(in.int(), in.long(), in.int(), in.long(), in.int())
    }
}
