// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import scala.collection.mutable.ArrayBuffer

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.shuffle.lodestone.transport.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, SegmentRun}

/** What a task fetches in one piece: segments of one partition, and where they are in its layout. */
private[fetch] final case class MergedChunk(
    service: ServiceLocation,
    runs: Array[SegmentRun],
    segments: Array[LaidSegment]) {
  val sizeBytes: Long = segments.foldLeft(0L)(_ + _.length)

  /** Records in it, where each of its map tasks counted them. */
  def records: Option[Long] =
    if (segments.exists(_.records < 0)) None else Some(segments.foldLeft(0L)(_ + _.records))

  def maps: RoaringBitmap = {
    val bitmap = new RoaringBitmap
    segments.foreach(segment => bitmap.add(segment.mapIndex))
    bitmap
  }
}

/**
 * Cuts the segments that a task wants of a partition into chunks, in the order of their places.
 *
 * @param chunkBytes
 *   at which a chunk is large enough
 */
private[fetch] final class ChunkCut(
    service: ServiceLocation,
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
    chunks += MergedChunk(service, runs.toArray, segments.toArray)
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
