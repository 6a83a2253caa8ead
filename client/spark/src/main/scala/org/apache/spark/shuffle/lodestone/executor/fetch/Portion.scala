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
  def records: Option[Long] = {
    var sum = 0L
    val areCounted = segments.forall { segment =>
      sum += segment.records
      segment.records >= 0
    }
    if (areCounted) Some(sum) else None
  }

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

private[fetch] object Portion {

  /** One segment, and where its bytes begin. */
  private final class Laid(val segment: LaidSegment, val reduceId: Int, val offset: Int)

  /** As an executor of plain Spark reads its own disk: by map, partition and push. */
  private object Order extends Comparator[Laid] {
    override def compare(one: Laid, other: Laid): Int = {
      val byMap = Integer.compare(one.segment.mapIndex, other.segment.mapIndex)
      val byPartition =
        if (byMap != 0) byMap else Integer.compare(one.reduceId, other.reduceId)
      if (byPartition != 0) byPartition
      else Integer.compare(one.segment.sequence, other.segment.sequence)
    }
  }

  /** Returns the order in which the bytes of these chunks are read. */
  def inOrder(chunks: IndexedSeq[FetchChunk]): Slices = {
    val laid = new Array[Laid](chunks.iterator.map(_.segments.length).sum)
    var count = 0
    var offset = 0
    for (chunk <- chunks) chunk.segments.foreach { segment =>
      laid(count) = new Laid(segment, chunk.reduceId, offset)
      count += 1
      offset += segment.length
    }
    Arrays.sort(laid, Order)
    val slices = new Slices(count)
    laid.foreach(one => slices.add(one.offset, one.segment.length))
    slices
  }
}

/** Ranges of bytes, one after another. There may be thousands: without an object for each. */
private[fetch] final class Slices(most: Int) {
  private val offsets = new Array[Int](most)
  private val lengths = new Array[Int](most)
  private var size = 0
  private var sum = 0

  def count: Int = size

  def bytes: Int = sum

  /** A range that begins where the last one ends makes that longer. */
  def add(offset: Int, length: Int): Unit = {
    if (size > 0 && offsets(size - 1) + lengths(size - 1) == offset) {
      lengths(size - 1) += length
    } else {
      offsets(size) = offset
      lengths(size) = length
      size += 1
    }
    sum += length
  }

  def offset(at: Int): Int = offsets(at)

  def length(at: Int): Int = lengths(at)
}

/** The bytes of some chunks. The task itself puts them in order: network threads are few. */
private[fetch] final class PortionBuffer(chunks: IndexedSeq[FetchChunk], bytes: ByteBuf)
    extends NettyManagedBuffer(bytes) {

  override def createInputStream(): InputStream = {
    val slices = Portion.inOrder(chunks)
    if (slices.count == 1) super.createInputStream() else new SlicesStream(bytes, slices)
  }
}

/** Reads slices of a buffer in their order. Netty's composite would search in each read. */
private[fetch] final class SlicesStream(bytes: ByteBuf, slices: Slices) extends InputStream {
  private val start = bytes.readerIndex()
  private var at = 0
  private var readOfSlice = 0
  private var left = slices.bytes
  private val one = new Array[Byte](1)

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) {
      0
    } else if (left == 0) {
      -1
    } else {
      val wanted = math.min(length, left)
      var done = 0
      while (done < wanted) done += readSome(target, offset + done, wanted - done)
      left -= done
      done
    }

  /** Reads from one slice. */
  private def readSome(target: Array[Byte], offset: Int, length: Int): Int = {
    val some = math.min(length, slices.length(at) - readOfSlice)
    bytes.getBytes(start + slices.offset(at) + readOfSlice, target, offset, some)
    readOfSlice += some
    if (readOfSlice == slices.length(at)) {
      at += 1
      readOfSlice = 0
    }
    some
  }

  override def available(): Int = left
}
