// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream
import java.util.{Arrays, Comparator}

import scala.collection.mutable.ArrayBuffer

import io.netty.buffer.{ByteBuf, ByteBufInputStream, Unpooled}
import org.roaringbitmap.RoaringBitmap

import org.apache.spark.network.buffer.NettyManagedBuffer
import org.apache.spark.shuffle.lodestone.wire.LaidSegment

/**
 * Spark's fetch iterator takes a portion for one chunk of a merged block. A portion has the
 * segments of one or more chunks, from any partitions and services, in the order of plain Spark.
 */
private[fetch] final case class Portion(chunks: IndexedSeq[FetchChunk]) {
  val sizeBytes: Long = chunks.iterator.map(_.sizeBytes).sum

  /** The number of its records, if each of its map tasks has counted them. */
  def records: Option[Long] =
    if (segments.exists(_.records < 0)) None else Some(segments.foldLeft(0L)(_ + _.records))

  /** The map indexes of one partition; of several partitions, as many bits as there are blocks. */
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

/** A range of bytes. */
private[fetch] final case class Slice(offset: Int, length: Int)

private[fetch] object Portion {

  /** One segment, and where its bytes are. */
  private final class Laid(val segment: LaidSegment, val reduceId: Int, val slice: Slice)

  /** As an executor of plain Spark reads its own disk: by map, partition and offset. */
  private val order: Comparator[Laid] = Comparator
    .comparingInt[Laid](_.segment.mapIndex)
    .thenComparingInt(_.reduceId)
    .thenComparingInt(_.segment.sequence)

  /** Returns the order in which the bytes of these chunks are read. */
  def inOrder(chunks: IndexedSeq[FetchChunk]): Array[Slice] = {
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

/** The bytes of some chunks. The task itself puts them in order: network threads are few. */
private[fetch] final class PortionBuffer(chunks: IndexedSeq[FetchChunk], bytes: ByteBuf)
    extends NettyManagedBuffer(bytes) {
  import PortionBuffer._

  override def createInputStream(): InputStream = {
    val slices = Portion.inOrder(chunks)
    if (slices.length == 1) super.createInputStream()
    else new ByteBufInputStream(inOrder(slices))
  }

  /** Returns a buffer that lives as long as this one, and needs no release. */
  private def inOrder(slices: Array[Slice]): ByteBuf = {
    val start = bytes.readerIndex()
    if (bytes.readableBytes() / slices.length >= MinMeanBytes) {
      val views = slices.map(slice => bytes.slice(start + slice.offset, slice.length))
      Unpooled.wrappedBuffer(views.length, views: _*)
    } else {
      val copied = Unpooled.buffer(bytes.readableBytes())
      slices.foreach(slice => copied.writeBytes(bytes, start + slice.offset, slice.length))
      copied
    }
  }
}

private object PortionBuffer {

  /** Smaller slices are copied: a view of each would take as much memory as its bytes. */
  private val MinMeanBytes = 1024
}
