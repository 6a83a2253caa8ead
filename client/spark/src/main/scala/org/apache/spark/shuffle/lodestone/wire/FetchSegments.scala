// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** Consecutive slots of a layout. */
private[spark] final case class SegmentRun(first: Int, count: Int)

/** Segments of one partition, which the service sends as one chunk. */
private[spark] final case class WantedChunk(reduceId: Int, runs: Array[SegmentRun])

/** Opens a stream of these chunks. The answer is Spark's own StreamHandle. */
private[spark] final case class FetchSegments(
    shuffle: ShuffleAddress,
    chunks: Array[WantedChunk])
    extends Message(88)

/** Spark's answer to each request that opens a stream (its message 3). */
private[spark] final case class OpenStream(streamId: Long, numChunks: Int)
    extends Message(OpenStream.typeId)

private[spark] object OpenStream extends Codec[OpenStream](3) {
  override private[wire] def read(in: WireReader): OpenStream = OpenStream(in.long(), in.int())
}
