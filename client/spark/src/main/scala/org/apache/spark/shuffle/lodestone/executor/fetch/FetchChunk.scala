// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.transport.SizedChunk
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, PartitionLayout, SegmentRun}
import org.apache.spark.shuffle.lodestone.wire.WantedChunk

/** Segments of one partition that a service sends as one answer, and their slots. */
private[fetch] final case class FetchChunk(
    service: ServiceLocation,
    reduceId: Int,
    runs: Array[SegmentRun],
    segments: Array[LaidSegment]) {
  val sizeBytes: Long = segments.foldLeft(0L)(_ + _.length)

  def wanted: SizedChunk = SizedChunk(WantedChunk(reduceId, runs), sizeBytes)
}

/**
 * Cuts the segments that a task reads of a partition into chunks, in the order of their slots.
 *
 * @param chunkBytes
 *   the size at which a chunk is complete
 */
private[fetch] final class ChunkCut(
    service: ServiceLocation,
    reduceId: Int,
    chunkBytes: Long = ChunkCut.ChunkBytes) {
  private val chunks = Vector.newBuilder[FetchChunk]
  private val runs = ArrayBuffer.empty[SegmentRun]
  private val segments = ArrayBuffer.empty[LaidSegment]
  private var bytes = 0L
  private var first = 0
  private var end = 0

  /** Adds those segments of the layout that the task takes. This loop is hot: no collections. */
  def addFrom(layout: PartitionLayout)(takes: LaidSegment => Boolean): this.type = {
    layout.runs.foreach { run =>
      var i = 0
      while (i < run.segments.length) {
        val segment = run.segments(i)
        if (takes(segment)) add(run.first + i, segment)
        i += 1
      }
    }
    this
  }

  def add(slot: Int, segment: LaidSegment): Unit = {
    if (runs.size == ChunkCut.MaxRuns - 1 && slot != end) close()
    if (segments.isEmpty) {
      first = slot
    } else if (slot != end) {
      runs += SegmentRun(first, end - first)
      first = slot
    }
    end = slot + 1
    segments += segment
    bytes += segment.length
    if (bytes >= chunkBytes) close()
  }

  def result(): IndexedSeq[FetchChunk] = {
    close()
    chunks.result()
  }

  /** The next segment begins another chunk. */
  def close(): Unit = if (segments.nonEmpty) {
    runs += SegmentRun(first, end - first)
    chunks += FetchChunk(service, reduceId, runs.toArray, segments.toArray)
    runs.clear()
    segments.clear()
    bytes = 0
  }
}

private[fetch] object ChunkCut {

  /**
   * Large enough that a request costs nothing beside its bytes, and small enough for several chunks
   * in flight. Spark's own service cuts at the same size (`minChunkSizeInMergedShuffleFile`).
   */
  val ChunkBytes: Long = 2L << 20

  /** A service refuses a stream that has a chunk with more runs. */
  val MaxRuns: Int = 65536

  /** A chunk of its own for each segment. */
  val OneSegment: Long = 1
}
