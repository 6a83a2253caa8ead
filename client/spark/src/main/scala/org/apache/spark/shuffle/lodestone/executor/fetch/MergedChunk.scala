// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.transport.SizedChunk
import org.apache.spark.shuffle.lodestone.wire.{WantedChunk, LaidSegment, SegmentRun}

/**
 * What a service sends in one piece: segments of one partition, in the order in which it has them, and
 * where they are in its layout.
 */
private[fetch] final case class MergedChunk(
    service: ServiceLocation,
    reduceId: Int,
    runs: Array[SegmentRun],
    segments: Array[LaidSegment]) {
  val sizeBytes: Long = segments.foldLeft(0L)(_ + _.length)

  /** As it is asked for. */
  def wanted: SizedChunk = SizedChunk(WantedChunk(reduceId, runs), sizeBytes)
}

/**
 * Cuts the segments that a task wants of a partition into chunks, in the order of their places.
 *
 * @param chunkBytes
 *   at which a chunk is large enough
 */
private[fetch] final class ChunkCut(
    service: ServiceLocation,
    reduceId: Int,
    chunkBytes: Long = ChunkCut.ChunkBytes) {
  private val chunks = Vector.newBuilder[MergedChunk]
  private val runs = ArrayBuffer.empty[SegmentRun]
  private val segments = ArrayBuffer.empty[LaidSegment]
  private var bytes = 0L
  private var first = 0
  private var end = 0

  def add(place: Int, segment: LaidSegment): Unit = {
    if (segments.isEmpty) {
      first = place
    } else if (place != end) {
      runs += SegmentRun(first, end - first)
      first = place
    }
    end = place + 1
    segments += segment
    bytes += segment.length
    if (bytes >= chunkBytes) close()
  }

  def result(): IndexedSeq[MergedChunk] = {
    close()
    chunks.result()
  }

  /** What comes next is in another chunk. */
  def close(): Unit = if (segments.nonEmpty) {
    runs += SegmentRun(first, end - first)
    chunks += MergedChunk(service, reduceId, runs.toArray, segments.toArray)
    runs.clear()
    segments.clear()
    bytes = 0
  }
}

private[fetch] object ChunkCut {

  /**
   * Enough that a request costs nothing beside the bytes, and little enough to have several of them
   * in flight: what Spark's own service cuts (`minChunkSizeInMergedShuffleFile`).
   */
  val ChunkBytes: Long = 2L << 20

  /** A chunk of its own for each segment. */
  val OneSegment: Long = 1
}
