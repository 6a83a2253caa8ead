// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** A chunk of the layout that was told for the same range of maps. */
private[spark] final case class ChunkRef(reduceId: Int, chunk: Int)

/** Opens a stream over these chunks; the answer is Spark's own StreamHandle. */
private[spark] final case class FetchChunks(
    shuffle: ShuffleAddress,
    maps: MapRange,
    chunks: Array[ChunkRef])
    extends Message {
  override def typeId: Int = FetchChunks.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    shuffle.write(out)
    maps.write(out)
    out.seq(chunks) { ref =>
      out.int(ref.reduceId)
      out.int(ref.chunk)
    }
  }
}

private[spark] object FetchChunks extends Codec[FetchChunks](76) {
  private val RefBytes = 8

  override private[wire] def read(in: WireReader): FetchChunks =
    FetchChunks(
      ShuffleAddress.read(in),
      MapRange.read(in),
      in.seq(RefBytes)(ChunkRef(in.int(), in.int())))
}

/** Spark's answer to whatever opens a stream (its message 3). */
private[spark] final case class OpenStream(streamId: Long, numChunks: Int) extends Message {
  override def typeId: Int = OpenStream.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    out.long(streamId)
    out.int(numChunks)
  }
}

private[spark] object OpenStream extends Codec[OpenStream](3) {
  override private[wire] def read(in: WireReader): OpenStream = OpenStream(in.long(), in.int())
}
