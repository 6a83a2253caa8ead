// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.{Arrays, Comparator}

import scala.collection.mutable.ArrayBuffer

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.shuffle.lodestone.wire.LaidSegment

/**
 * What Spark's fetch iterator gets in one piece, and takes for one chunk of a merged block: the segments
 * of one chunk or of several, of whatever partitions and services, in the order of plain Spark.
 */
private[fetch] final case class Portion(chunks: IndexedSeq[MergedChunk]) {
  val sizeBytes: Long = chunks.iterator.map(_.sizeBytes).sum

  /** Records in it, where each of its map tasks counted them. */
  def records: Option[Long] =
    if (segments.exists(_.records < 0)) None else Some(segments.foldLeft(0L)(_ + _.records))

  /** Which maps are in it, if it is of one partition; else it is only as large as it has blocks. */
  def bitmap: RoaringBitmap = {
    val bitmap = new RoaringBitmap
    if (chunks.forall(_.reduceId == chunks.head.reduceId)) {
      segments.foreach(segment => bitmap.add(segment.mapIndex))
    } else {
      val blocks = chunks.flatMap(c => c.segments.iterator.map(s => (c.reduceId, s.mapIndex)))
      bitmap.add(0L, blocks.distinct.size.toLong)
    }
    bitmap
  }

  private def segments: Iterator[LaidSegment] = chunks.iterator.flatMap(_.segments.iterator)
}

/** Bytes that stay together. */
private[fetch] final case class Slice(offset: Int, length: Int)

private[fetch] object Portion {

  /** One segment, where it is, and its place in plain Spark's order. */
  private final class Laid(val segment: LaidSegment, val reduceId: Int, val slice: Slice)

  /**
   * Map after map, of each map partition after partition, of each of those what was pushed first: this
   * is how an executor of plain Spark reads its own disk.
   */
  private val order: Comparator[Laid] = (one, other) => {
    val byMap = Integer.compare(one.segment.mapIndex, other.segment.mapIndex)
    if (byMap != 0) byMap
    else {
      val byPartition = Integer.compare(one.reduceId, other.reduceId)
      if (byPartition != 0) byPartition
      else Integer.compare(one.segment.sequence, other.segment.sequence)
    }
  }

  /** In which order the bytes of these chunks are read, if they come one after another. */
  def inOrder(chunks: IndexedSeq[MergedChunk]): Array[Slice] = {
    val all = Array.newBuilder[Laid]
    var offset = 0
    for (chunk <- chunks; segment <- chunk.segments) {
      all += new Laid(segment, chunk.reduceId, Slice(offset, segment.length))
      offset += segment.length
    }
    val sorted = all.result()
    Arrays.sort(sorted, order)
    joined(sorted)
  }

  private def joined(sorted: Array[Laid]): Array[Slice] = {
    val slices = ArrayBuffer.empty[Slice]
    sorted.foreach { laid =>
      val next = laid.slice
      slices.lastOption match {
        case Some(last) if last.offset + last.length == next.offset =>
          slices(slices.size - 1) = last.copy(length = last.length + next.length)
        case _ => slices += next
      }
    }
    slices.toArray
  }
}
