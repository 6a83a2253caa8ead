// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream
import java.util.{Arrays, Comparator}

import io.netty.buffer.ByteBuf
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
    if (segments.exists(_.records < 0)) None else Some(segments.map(_.records.toLong).sum)

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

  /** The lengths of its segments, in the order in which they are read. */
  def lengths: Iterator[Int] = Portion.inOrder(chunks).iterator.map(_.segment.length)

  private def segments: Iterator[LaidSegment] = chunks.iterator.flatMap(_.segments.iterator)
}

private[fetch] object Portion {

  /** One segment, and where its bytes begin. */
  final class Laid(val segment: LaidSegment, val reduceId: Int, val offset: Int)

  /** As an executor of plain Spark reads its own disk: by map, partition and push. */
  private val order: Comparator[Laid] = (one, other) => {
    val byMap = Integer.compare(one.segment.mapIndex, other.segment.mapIndex)
    val byPartition = if (byMap != 0) byMap else Integer.compare(one.reduceId, other.reduceId)
    if (byPartition != 0) byPartition
    else Integer.compare(one.segment.sequence, other.segment.sequence)
  }

  /** Returns the order in which the bytes of these chunks are read. */
  def inOrder(chunks: IndexedSeq[FetchChunk]): Array[Laid] = {
    val laid = Array.newBuilder[Laid]
    var offset = 0
    for (chunk <- chunks) chunk.segments.foreach { segment =>
      laid += new Laid(segment, chunk.reduceId, offset)
      offset += segment.length
    }
    val ordered = laid.result()
    Arrays.sort(ordered, order)
    ordered
  }
}

/** The bytes of some chunks. The task itself puts them in order: network threads are few. */
private[fetch] final class PortionBuffer(chunks: IndexedSeq[FetchChunk], bytes: ByteBuf)
    extends NettyManagedBuffer(bytes) {

  override def createInputStream(): InputStream = new SlicesStream(bytes, Portion.inOrder(chunks))
}

/** Reads segments of a buffer in this order. Netty's composite would search in each read. */
private[fetch] final class SlicesStream(bytes: ByteBuf, segments: Array[Portion.Laid])
    extends InputStream {
  private val start = bytes.readerIndex()
  private var at = 0
  private var readOfSegment = 0
  private var left = bytes.readableBytes()
  private val one = new Array[Byte](1)

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int = {
    val wanted = math.min(length, left)
    var done = 0
    while (done < wanted) done += readSome(target, offset + done, wanted - done)
    left -= done
    if (done == 0 && length > 0) -1 else done
  }

  /** Reads from one segment. */
  private def readSome(target: Array[Byte], offset: Int, length: Int): Int = {
    val laid = segments(at)
    val some = math.min(length, laid.segment.length - readOfSegment)
    bytes.getBytes(start + laid.offset + readOfSegment, target, offset, some)
    readOfSegment += some
    if (readOfSegment == laid.segment.length) {
      at += 1
      readOfSegment = 0
    }
    some
  }

  override def available(): Int = left
}
