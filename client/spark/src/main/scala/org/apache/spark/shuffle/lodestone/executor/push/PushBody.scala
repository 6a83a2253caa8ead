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
    var whole = false
    try {
      while (bytes.writerIndex() < request.sizeBytes) {
        append(bytes, pieces, file, request, memory)
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
      file: FileChannel,
      request: PushRequest,
      memory: BodyMemory): Unit = {
    val start = bytes.writerIndex()
    val length = math.min(PieceBytes, request.sizeBytes - start)
    val position = request.offset + start
    if (length == PieceBytes) {
      val piece = memory.take()
      pieces += piece
      fill(piece, length, file, position)
      bytes.addComponent(true, piece.retainedDuplicate())
    } else {
      val rest = PooledByteBufAllocator.DEFAULT.directBuffer(length, length)
      var whole = false
      try {
        fill(rest, length, file, position)
        whole = true
      } finally {
        if (!whole) rest.release()
      }
      bytes.addComponent(true, rest)
    }
  }

  private def fill(piece: ByteBuf, length: Int, file: FileChannel, position: Long): Unit =
    while (piece.readableBytes() < length) {
      val at = position + piece.writerIndex()
      if (piece.writeBytes(file, at, length - piece.readableBytes()) < 0) {
        throw new EOFException(s"the map output ends before offset $at")
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
