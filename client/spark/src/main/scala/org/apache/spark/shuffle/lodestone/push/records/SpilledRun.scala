// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.io.{BufferedOutputStream, EOFException, File, FileInputStream, FileOutputStream}
import java.io.OutputStream

/** A part of a map output that had to leave memory: blocks in the order of their partitions. */
private[records] final class SpilledRun(file: File, numPartitions: Int) {
  import SpilledRun._

  private val lengths = new Array[Long](numPartitions)
  private var end = 0L

  def bytes: Long = end

  def write(blocks: BlockOutput => Unit): Unit = {
    val stream = new BufferedOutputStream(new FileOutputStream(file), BufferBytes)
    val out = new BlockOutput(stream, None)
    try blocks(out)
    finally out.close()
  }

  /** The block of the partition is written, and ends there. */
  def ended(partition: Int, at: Long): Unit = {
    lengths(partition) = at - end
    end = at
  }

  def open(): Reader = new Reader(new FileInputStream(file), lengths)

  def delete(): Unit = file.delete()
}

private[records] object SpilledRun {
  private val BufferBytes = 256 * 1024

  /** Reads the blocks in their order. */
  final class Reader(in: FileInputStream, lengths: Array[Long]) extends AutoCloseable {
    private val copied = new Array[Byte](BufferBytes)

    def has(partition: Int): Boolean = lengths(partition) > 0

    def copy(partition: Int, to: OutputStream): Unit = {
      var left = lengths(partition)
      while (left > 0) {
        val count = in.read(copied, 0, math.min(copied.length.toLong, left).toInt)
        if (count < 0) throw new EOFException(s"$left bytes of a spilled block are missing")
        to.write(copied, 0, count)
        left -= count
      }
    }

    override def close(): Unit = in.close()
  }
}
