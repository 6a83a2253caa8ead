// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.{File, InputStream}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel

import org.apache.spark.shuffle.ShuffleWriter
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameDecoder

/** A map output that an engine writes to the executor's disk, on its way to services. */
private[lodestone] trait EngineOutput[K, V] {

  /** The engine's writer of the output. */
  def writer: ShuffleWriter[K, V]

  def decoder: FrameDecoder

  /** The blocks, one behind the other, once the writer has stopped. */
  def file: File

  /**
   * Removes the output that the writer has committed, if there is one. What an engine was writing
   * when its task was killed stays until the application ends, as without Lodestone.
   */
  def remove(): Unit
}

/** Reads blocks of a file one after another, through one buffer. */
private[remote] final class BlockFile(file: FileChannel) extends InputStream {
  private val buffer = ByteBuffer.allocate(BlockFile.BufferBytes)
  private val one = new Array[Byte](1)
  private var left = 0L

  /** The place in the file of what follows the buffer. */
  private var next = 0L
  buffer.limit(0)

  /** Begins a block. Mostly it follows the last one. */
  def open(offset: Long, length: Long): this.type = {
    if (offset != next - buffer.remaining()) {
      buffer.limit(0)
      next = offset
    }
    left = length
    this
  }

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (left == 0 || (!buffer.hasRemaining && !fill())) -1
    else {
      val some = math.min(math.min(length, buffer.remaining()).toLong, left).toInt
      buffer.get(target, offset, some)
      left -= some
      some
    }

  private def fill(): Boolean = {
    buffer.clear()
    val count = file.read(buffer, next)
    buffer.flip()
    if (count > 0) next += count
    count > 0
  }
}

private object BlockFile {
  private val BufferBytes = 256 << 10
}
