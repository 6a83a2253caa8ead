// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.OutputStream
import java.util.concurrent.atomic.AtomicInteger
import java.util.zip.CRC32C

import scala.collection.mutable.ArrayBuffer

import io.netty.buffer.{ByteBuf, Unpooled}

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.shuffle.lodestone.executor.push.OwnedBuffer
import org.apache.spark.shuffle.lodestone.wire.{BlockSequence, Segment}

/**
 * Segments one after another, numbered from `firstSegment` on. Each batch that is made of it holds it;
 * when the last one lets go, `whenFree` gives its memory back.
 */
private[remote] final class SegmentBody(
    bytes: ByteBuf,
    val segments: Array[Segment],
    val firstSegment: Int,
    whenFree: () => Unit) {
  private val holders = new AtomicInteger(1)
  private val starts = segments.scanLeft(0)(_ + _.length)

  /** The bytes of `from until until`. */
  def slice(from: Int, until: Int): ManagedBuffer =
    new OwnedBuffer(bytes.slice(starts(from), starts(until) - starts(from)))

  def hold(): Unit = {
    holders.incrementAndGet()
    ()
  }

  def letGo(): Unit = if (holders.decrementAndGet() == 0) whenFree()
}

/** Takes segments, in pieces of memory that are used again. */
private[remote] final class SegmentOutput(room: BodyRoom) extends OutputStream {
  private val bytes = Unpooled.compositeBuffer(SegmentOutput.MaxPieces)
  private val pieces = ArrayBuffer.empty[ByteBuf]
  private val segments = ArrayBuffer.empty[Segment]
  private val crc = new CRC32C
  private var piece: ByteBuf = _
  private var size = 0
  private var start = 0
  private var isFree = false

  def sizeBytes: Int = size

  def count: Int = segments.length

  /** Of the segment that is being written. */
  def segmentBytes: Int = size - start

  override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

  /** After the end nobody wants what a stream still writes when it is closed, and it waits for no room. */
  override def write(from: Array[Byte], offset: Int, length: Int): Unit = if (!isFree) {
    crc.update(from, offset, length)
    var done = 0
    while (done < length) {
      if (piece == null || !piece.isWritable) nextPiece()
      val now = math.min(piece.writableBytes(), length - done)
      piece.writeBytes(from, offset + done, now)
      done += now
    }
    size += length
  }

  /** What was written since the one before is a segment, of this number in its block. */
  def endSegment(reduceId: Int, number: Int, records: Int): Segment = {
    val sequence = BlockSequence(number)
    val segment = Segment(reduceId, size - start, records, crc.getValue.toInt, sequence)
    segments += segment
    crc.reset()
    start = size
    segment
  }

  /** The newest segment is the last one of its block. */
  def markLast(): Unit = {
    val segment = segments.last
    segments(segments.length - 1) =
      segment.copy(sequence = BlockSequence.last(segment.sequence))
  }

  /** How long a record waited for room. */
  def waitedNanos: Long = room.waitedNanos

  /** All that was written. This output is of no more use. */
  def result(firstSegment: Int): SegmentBody = {
    for (filled <- pieces) bytes.addComponent(true, filled.retainedDuplicate())
    room.fit()
    new SegmentBody(bytes, segments.toArray, firstSegment, () => free())
  }

  def free(): Unit = {
    isFree = true
    bytes.release()
    room.end(pieces)
  }

  private def nextPiece(): Unit = {
    piece = room.take()
    pieces += piece
  }
}

private[remote] object SegmentOutput {

  /** Past it Netty would copy them together. */
  private val MaxPieces = Int.MaxValue
}
