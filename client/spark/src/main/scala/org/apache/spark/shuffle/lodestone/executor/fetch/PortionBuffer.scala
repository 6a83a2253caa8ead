// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import io.netty.buffer.{ByteBuf, ByteBufInputStream, Unpooled}

import org.apache.spark.network.buffer.NettyManagedBuffer

/**
 * The bytes of some chunks, one after another as they were sent, which are read in the order of plain
 * Spark. They are put in order when the task opens them: network threads are few.
 */
private[fetch] final class PortionBuffer(chunks: IndexedSeq[MergedChunk], bytes: ByteBuf)
    extends NettyManagedBuffer(bytes) {
  import PortionBuffer._

  override def createInputStream(): InputStream = {
    val slices = Portion.inOrder(chunks)
    if (slices.length == 1) super.createInputStream()
    else new ByteBufInputStream(inOrder(slices))
  }

  /** What it gives lives as long as this buffer, and nobody need release it. */
  private def inOrder(slices: Array[Slice]): ByteBuf = {
    val start = bytes.readerIndex()
    if (bytes.readableBytes() / slices.length >= LeastMeanBytes) {
      val pieces = slices.map(slice => bytes.slice(start + slice.offset, slice.length))
      Unpooled.wrappedBuffer(pieces.length, pieces: _*)
    } else {
      val copied = Unpooled.buffer(bytes.readableBytes())
      slices.foreach(slice => copied.writeBytes(bytes, start + slice.offset, slice.length))
      copied
    }
  }
}

private object PortionBuffer {

  /** Smaller pieces are copied: to keep a view of each would take as much memory as its bytes. */
  private val LeastMeanBytes = 1024
}
