// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{BufferedOutputStream, EOFException, InputStream, IOException, OutputStream}

import org.apache.spark.util.Utils

/**
 * A part of a map output that had to leave memory: blocks in the order of their partitions. It exists only
 * when it is whole: a run whose writing fails has no file any more, and ends its task.
 */
private[records] final class SpilledRun private (file: SpillFile, blocks: RunBlocks) {
  import SpilledRun._

  def bytes: Long = blocks.bytes

  def open(): Reader = new Reader(file, blocks)

  def delete(): Unit = file.delete()
}

private[records] object SpilledRun {
  private val BufferBytes = 256 * 1024

  /** Writes a run to a new file; `content` notes each block as soon as it is written. */
  def write(files: SpillFiles)(content: (BlockOutput, RunBlocks) => Unit): SpilledRun = {
    val file = files.create()
    var whole = false
    try {
      val blocks = new RunBlocks
      val out = new BlockOutput(new BufferedOutputStream(file.write(), BufferBytes), None)
      Utils.tryWithSafeFinally(content(out, blocks))(out.close())
      if (blocks.bytes != out.bytes) {
        throw new IOException(
          s"${out.bytes} bytes were spilled in blocks of ${blocks.bytes} bytes")
      }
      whole = true
      new SpilledRun(file, blocks)
    } finally {
      if (!whole) file.delete()
    }
  }

  /** Reads the blocks in their order. */
  final class Reader(file: SpillFile, blocks: RunBlocks) extends AutoCloseable {
    private val in: InputStream = file.read()
    private val copied = new Array[Byte](BufferBytes)
    private var next = 0

    def has(partition: Int): Boolean =
      next < blocks.count && blocks.partition(next) == partition

    /** The block of the partition, which the run has; says how many records it is of. */
    def copy(partition: Int, to: OutputStream): Long = {
      require(has(partition), s"$partition is not the next partition of a spilled run")
      var left = blocks.length(next)
      while (left > 0) {
        val count = in.read(copied, 0, math.min(copied.length.toLong, left).toInt)
        if (count < 0) throw missing(left)
        to.write(copied, 0, count)
        left -= count
      }
      val records = blocks.records(next)
      next += 1
      records
    }

    /** Call it when all partitions were asked for: nothing may be left. */
    def finish(): Unit = if (next != blocks.count || in.read() >= 0) {
      throw new IOException(s"not all of ${file.name} was read: $next of ${blocks.count} blocks")
    }

    private def missing(bytes: Long): IOException =
      new EOFException(s"$bytes bytes of a spilled block are missing in ${file.name}")

    override def close(): Unit = in.close()
  }
}
