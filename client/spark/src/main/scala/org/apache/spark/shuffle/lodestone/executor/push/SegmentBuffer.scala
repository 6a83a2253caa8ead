// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.{EOFException, OutputStream}
import java.nio.channels.FileChannel
import java.util.concurrent.atomic.AtomicInteger
import java.util.zip.CRC32C

import scala.collection.mutable.ArrayBuffer

import io.netty.buffer.{ByteBuf, Unpooled}

import org.apache.spark.network.buffer.{ManagedBuffer, NettyManagedBuffer}
import org.apache.spark.shuffle.lodestone.wire.{BlockSequence, Crc32c, Segment}

/**
 * Segments one after another, and the part of `spark.lodestone.push.memory` that they have, from
 * before the first one is written until nobody sends them any more. One thread fills the buffer and
 * seals it. Then each batch that is cut from it holds it. The last holder gives the memory back.
 *
 * @param askedNs
 *   when the wait for its room began
 * @param isRequired
 *   its size is not known before, and it comes from the heap if there is no direct memory
 * @param alive
 *   throws when the task has to end
 */
private[push] final class SegmentBuffer(
    askedNs: Long,
    private var reserved: Long,
    budget: ByteBudget,
    pool: PiecePool,
    isRequired: Boolean,
    alive: () => Unit,
    whenFree: () => Unit)
    extends OutputStream {
  import PiecePool.PieceBytes

  // Netty would copy more components than the maximum together.
  private val content = Unpooled.compositeBuffer(Int.MaxValue)
  private val pieces = ArrayBuffer.empty[ByteBuf]
  private val made = ArrayBuffer.empty[Segment]
  private val crc = new CRC32C
  private val holders = new AtomicInteger(1)
  private var piece: ByteBuf = _
  private var isOpen = true
  private var first = 0
  private var whole = false
  private var size = 0
  private var start = 0
  private var taken = 0L
  private var isPastLimit = false
  private var waited = System.nanoTime() - askedNs

  /** The number of the first segment among those of the attempt. */
  def firstSegment: Int = first

  /** The attempt pushes nothing else to the service of these segments. */
  def isWhole: Boolean = whole

  /** The segments of a sealed buffer. */
  lazy val segments: Array[Segment] = made.toArray
  private lazy val starts = segments.scanLeft(0)(_ + _.length)

  def sizeBytes: Int = size

  def count: Int = made.length

  /** Bytes of the segment that is being written. */
  def segmentBytes: Int = size - start

  /** How long it waited for room, before it began and later. */
  def waitedNanos: Long = waited

  override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

  /**
   * A stream that is closed after the end may still write. Nobody needs this; it waits for no room.
   */
  override def write(from: Array[Byte], offset: Int, length: Int): Unit = if (isOpen) {
    crc.update(from, offset, length)
    var done = 0
    while (done < length) {
      ensureWritable()
      val now = math.min(piece.writableBytes(), length - done)
      piece.writeBytes(from, offset + done, now)
      done += now
    }
    size += length
  }

  /** Bytes since the segment before are a segment, of this number in its block. */
  def endSegment(reduceId: Int, number: Int, records: Int): Segment = {
    val sequence = BlockSequence(number)
    val segment = Segment(reduceId, size - start, records, crc.getValue.toInt, sequence)
    made += segment
    crc.reset()
    start = size
    segment
  }

  /** The newest segment is the last one of its block. */
  def markLast(): Unit = {
    val newest = made.last
    made(made.length - 1) = newest.copy(sequence = BlockSequence.last(newest.sequence))
  }

  /** Reads bytes of a file, without their checksum. */
  def read(file: FileChannel, offset: Long, length: Long): Unit = {
    var done = 0L
    while (done < length) {
      ensureWritable()
      val wanted = math.min(piece.writableBytes().toLong, length - done)
      val count = piece.writeBytes(file, offset + done, wanted.toInt)
      if (count < 0) throw new EOFException(s"the map output ends before offset ${offset + done}")
      done += count
    }
    size += length.toInt
  }

  /** For the checksums of blocks that were read. */
  def readChecksums: Crc32c = new Crc32c(pieces.iterator.map(_.nioBuffer()).toArray)

  /** A block that was read is a segment. */
  def add(block: Segment): Unit = made += block

  /** Nothing is written any more: most buffers hold little, and others may have the room left. */
  def seal(firstSegment: Int, isWhole: Boolean = false): Unit = {
    isOpen = false
    first = firstSegment
    whole = isWhole
    pieces.foreach(piece => content.addComponent(true, piece.retainedDuplicate()))
    budget.release(reserved - taken)
    reserved = taken
  }

  /** Returns the bytes of `from until until`: the body of a request. */
  def slice(from: Int, until: Int): ManagedBuffer =
    new SegmentBuffer.Body(content.slice(starts(from), starts(until) - starts(from)))

  def retain(): Unit = {
    holders.incrementAndGet()
    ()
  }

  def release(): Unit = if (holders.decrementAndGet() == 0) {
    isOpen = false
    content.release()
    pieces.foreach(pool.give)
    budget.release(reserved, isPastLimit)
    whenFree()
  }

  private def ensureWritable(): Unit = if (piece == null || !piece.isWritable) {
    val wanted = if (isRequired) PieceBytes else math.min(PieceBytes.toLong, reserved - taken).toInt
    piece = take(wanted)
    pieces += piece
  }

  /** A buffer that holds a large record takes more than was reserved. For this it waits, too. */
  private def take(bytes: Int): ByteBuf = {
    taken += bytes
    if (taken > reserved) {
      val fromNs = System.nanoTime()
      isPastLimit = budget.extend(taken - reserved, isPastLimit)(alive())
      reserved = taken
      waited += System.nanoTime() - fromNs
    }
    try pool.take(bytes)
    catch {
      // Netty or the JVM has no direct memory left, because others use it as well. Spark ends an
      // executor for this error. The piece is empty, so no row is lost. If the heap is full too,
      // Spark ends the executor.
      case _: OutOfMemoryError if isRequired => Unpooled.buffer(bytes, bytes)
    }
  }
}

private object SegmentBuffer {

  /**
   * Bytes that stay the buffer's. References that Spark's transport takes or drops have no
   * effect: while it writes, it holds one of its own.
   */
  private final class Body(bytes: ByteBuf) extends NettyManagedBuffer(bytes) {
    override def retain(): ManagedBuffer = this
    override def release(): ManagedBuffer = this
  }
}
