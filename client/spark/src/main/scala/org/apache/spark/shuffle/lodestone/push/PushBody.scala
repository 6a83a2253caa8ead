// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import java.io.{EOFException, IOException}
import java.nio.channels.FileChannel

import io.netty.buffer.{ByteBuf, PooledByteBufAllocator}

import org.apache.spark.network.buffer.{ManagedBuffer, NettyManagedBuffer}

import org.apache.spark.shuffle.lodestone.wire.{Crc32c, Segment}

/**
 * The bytes of one request, read once. What Spark's transport does with its references is of no
 * consequence: while it writes it holds one of its own, and the owner frees the body when the
 * request is over, however it ended.
 */
private[push] final class PushBody private (bytes: ByteBuf, val segments: Array[Segment]) {

  val buffer: ManagedBuffer = new NettyManagedBuffer(bytes) {
    override def retain(): ManagedBuffer = this
    override def release(): ManagedBuffer = this
  }

  def free(): Unit = bytes.release()
}

private[push] object PushBody {

  @throws[IOException]
  def read(file: FileChannel, request: PushRequest, records: RecordCounts): PushBody = {
    val bytes = PooledByteBufAllocator.DEFAULT.directBuffer(request.sizeBytes, request.sizeBytes)
    var whole = false
    try {
      fill(bytes, file, request)
      val body = new PushBody(bytes, segmentsOf(bytes, request, records))
      whole = true
      body
    } finally {
      if (!whole) bytes.release()
    }
  }

  private def fill(bytes: ByteBuf, file: FileChannel, request: PushRequest): Unit =
    while (bytes.writableBytes() > 0) {
      val position = request.offset + bytes.writerIndex()
      if (bytes.writeBytes(file, position, bytes.writableBytes()) < 0) {
        throw new EOFException(s"the map output ends before offset $position")
      }
    }

  private def segmentsOf(
      bytes: ByteBuf,
      request: PushRequest,
      records: RecordCounts): Array[Segment] = {
    var start = 0
    request.reduceIds.indices.map { i =>
      val length = request.lengths(i)
      val crc = Crc32c.of(bytes.nioBuffer(start, length))
      start += length
      val reduceId = request.reduceIds(i)
      Segment(reduceId, length, records.of(reduceId), crc)
    }.toArray
  }
}
