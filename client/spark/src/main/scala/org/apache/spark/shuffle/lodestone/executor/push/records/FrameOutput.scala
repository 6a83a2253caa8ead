// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{EOFException, File}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption
import java.util.zip.CRC32C

/** A map output that an engine has written, as the executor's disk has it. */
private[lodestone] object FrameOutput {

  /** From the page cache: it was written a moment ago. */
  private val BufferBytes = 256 << 10

  /**
   * Returns the length of the block of each partition. An engine may have written more of them, as
   * Comet does if a sample of the data gives fewer ranges than were asked for. These have no bytes.
   */
  def lengths(written: Array[Long], numPartitions: Int): Array[Long] = {
    val (blocks, others) = written.splitAt(numPartitions)
    OutputCheck.partitions(blocks.length, numPartitions)
    OutputCheck.file(blocks.sum, blocks.sum + others.sum)
    blocks
  }

  /**
   * Returns the CRC-32C of each block. Readers compare it before the engine decodes the block. A
   * task whose output cannot be read back fails: its readers could not read it either.
   */
  def checksums(file: File, lengths: Array[Long]): Array[Long] = {
    val found = new Array[Long](lengths.length)
    // Without a record there may be no file.
    if (lengths.exists(_ > 0)) {
      val channel = FileChannel.open(file.toPath, StandardOpenOption.READ)
      try {
        OutputCheck.file(lengths.sum, channel.size())
        val buffer = ByteBuffer.allocate(BufferBytes)
        buffer.limit(0)
        for (partition <- lengths.indices) {
          found(partition) = checksum(channel, buffer, lengths(partition))
        }
      } finally {
        channel.close()
      }
    }
    found
  }

  /** Consumes so many bytes of the buffer, and fills it again from the file. */
  private def checksum(file: FileChannel, buffer: ByteBuffer, length: Long): Long = {
    val crc = new CRC32C
    var left = length
    while (left > 0) {
      if (!buffer.hasRemaining) {
        buffer.clear()
        if (file.read(buffer) < 0) throw new EOFException("the map output has become shorter")
        buffer.flip()
      }
      val some = math.min(left, buffer.remaining().toLong).toInt
      crc.update(buffer.array, buffer.position(), some)
      buffer.position(buffer.position() + some)
      left -= some
    }
    crc.getValue
  }
}
