// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.{EOFException, IOException}
import java.nio.channels.FileChannel

import scala.collection.mutable.ArrayBuffer

import io.netty.buffer.{ByteBuf, CompositeByteBuf, PooledByteBufAllocator, Unpooled}

import org.apache.spark.network.buffer.ManagedBuffer

import org.apache.spark.shuffle.lodestone.executor.push.records.RecordCounts
import org.apache.spark.shuffle.lodestone.wire.{BlockSequence, Crc32c, Segment}

/** The bytes of one request, read once. The owner frees them when the request is over, however it ended. */
private[push] final class PushBody private (
    bytes: ByteBuf,
    pieces: Seq[ByteBuf],
    memory: BodyMemory,
    val segments: Array[Segment]) {

  val buffer: ManagedBuffer = new OwnedBuffer(bytes)

  def free(): Unit = PushBody.free(bytes, pieces, memory)
}

private[push] object PushBody {
  import BodyMemory.PieceBytes

  @throws[IOException]
  def read(
      file: FileChannel,
      request: PushRequest,
      records: RecordCounts,
      memory: BodyMemory): PushBody = {
    val bytes = Unpooled.compositeBuffer(request.sizeBytes / PieceBytes + 1)
    val pieces = ArrayBuffer.empty[ByteBuf]
    val source = new Source(file, request.ranges)
    var whole = false
    try {
      while (bytes.writerIndex() < request.sizeBytes) {
        append(bytes, pieces, source, request.sizeBytes, memory)
      }
      val body = new PushBody(bytes, pieces.toSeq, memory, segmentsOf(bytes, request, records))
      whole = true
      body
    } finally {
      if (!whole) free(bytes, pieces.toSeq, memory)
    }
  }

  /** The next piece, or what is left if that is less. */
  private def append(
      bytes: CompositeByteBuf,
      pieces: ArrayBuffer[ByteBuf],
      source: Source,
      sizeBytes: Int,
      memory: BodyMemory): Unit = {
    val length = math.min(PieceBytes, sizeBytes - bytes.writerIndex())
    if (length == PieceBytes) {
      val piece = memory.take()
      pieces += piece
      source.fill(piece, length)
      bytes.addComponent(true, piece.retainedDuplicate())
    } else {
      val rest = PooledByteBufAllocator.DEFAULT.directBuffer(length, length)
      var whole = false
      try {
        source.fill(rest, length)
        whole = true
      } finally {
        if (!whole) rest.release()
      }
      bytes.addComponent(true, rest)
    }
  }

  /** Ranges of a file, one after another. */
  private final class Source(file: FileChannel, ranges: Array[FileRange]) {
    private var at = 0

    /** How much of the range is read. */
    private var done = 0L

    def fill(piece: ByteBuf, length: Int): Unit = while (piece.readableBytes() < length) {
      val range = ranges(at)
      val position = range.offset + done
      val wanted = math.min((length - piece.readableBytes()).toLong, range.length - done)
      val count = piece.writeBytes(file, position, wanted.toInt)
      if (count < 0) throw new EOFException(s"the map output ends before offset $position")
      done += count
      if (done == range.length) {
        at += 1
        done = 0
      }
    }
  }

  private def free(bytes: ByteBuf, pieces: Seq[ByteBuf], memory: BodyMemory): Unit = {
    bytes.release()
    pieces.foreach(memory.give)
  }

  private def segmentsOf(
      bytes: ByteBuf,
      request: PushRequest,
      records: RecordCounts): Array[Segment] = {
    val crc = new Crc32c(bytes.nioBuffers())
    request.reduceIds.indices.map { i =>
      val length = request.lengths(i)
      val reduceId = request.reduceIds(i)
      Segment(reduceId, length, records.of(reduceId), crc.next(length), BlockSequence.Only)
    }.toArray
  }
}
