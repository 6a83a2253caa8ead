// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{EOFException, File}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption.{CREATE, READ, TRUNCATE_EXISTING, WRITE}
import java.util.Arrays

/**
 * A file of frames in the order in which they came. Memory has the partition and the end of each.
 * If there are too many, the frames are written once more, by partition. Callers hold a lock.
 *
 * @param newFile
 *   names a new file, which may exist already, without bytes
 */
private[records] final class FrameFile(newFile: () => File, numPartitions: Int, mostFrames: Int) {
  import FrameFile._

  /** By partition there are at most as many as partitions: there must be room for more. */
  private val limit = math.max(mostFrames, 4 * numPartitions)
  private var file: Option[(File, FileChannel)] = None
  private var partitions = new Array[Int](FirstFrames)
  private var ends = new Array[Long](FirstFrames)
  private var count = 0

  def isEmpty: Boolean = count == 0

  /** Consumes the bytes of a frame. */
  def add(partition: Int, frame: ByteBuffer): Unit = {
    if (count == limit) rewrite()
    if (file.isEmpty) file = Some(open(newFile()))
    val (_, channel) = file.get
    val end = endOf(count - 1) + frame.remaining()
    val limitOfAll = frame.limit()
    while (frame.position() < limitOfAll) {
      // The JDK takes as much memory outside of the heap as is written at once.
      frame.limit(math.min(limitOfAll.toLong, frame.position().toLong + WriteBytes).toInt)
      channel.write(frame)
    }
    note(partition, end)
  }

  /** Writes all frames to a file by partition, and those of one partition as they came. */
  def gather(to: File): Unit = {
    val (_, channel) = open(to)
    try {
      var (from, until) = (0L, 0L)
      for (i <- byPartition) {
        if (endOf(i - 1) != until) {
          copy(from, until, channel)
          from = endOf(i - 1)
        }
        until = endOf(i)
      }
      copy(from, until, channel)
    } finally channel.close()
  }

  /** Removes the file. Callers may call it repeatedly. */
  def close(): Unit = {
    for ((name, channel) <- file) {
      try channel.close()
      finally name.delete()
    }
    file = None
  }

  private def rewrite(): Unit = {
    val sorted = newFile()
    var isWhole = false
    try {
      gather(sorted)
      isWhole = true
    } finally if (!isWhole) sorted.delete()
    val lengths = new Array[Long](numPartitions)
    for (i <- 0 until count) lengths(partitions(i)) += endOf(i) - endOf(i - 1)
    close()
    val channel = FileChannel.open(sorted.toPath, READ, WRITE)
    file = Some((sorted, channel))
    channel.position(channel.size())
    count = 0
    for (i <- lengths.indices if lengths(i) > 0) note(i, endOf(count - 1) + lengths(i))
  }

  private def note(partition: Int, end: Long): Unit = {
    if (count == partitions.length) {
      val more = math.min(limit.toLong, 2L * count).toInt
      partitions = Arrays.copyOf(partitions, more)
      ends = Arrays.copyOf(ends, more)
    }
    partitions(count) = partition
    ends(count) = end
    count += 1
  }

  private def endOf(frame: Int): Long = if (frame < 0) 0L else ends(frame)

  /** Returns the numbers of the frames in the order of their partitions. */
  private def byPartition: Array[Int] = {
    val next = new Array[Int](numPartitions + 1)
    for (i <- 0 until count) next(partitions(i) + 1) += 1
    for (partition <- 0 until numPartitions) next(partition + 1) += next(partition)
    val order = new Array[Int](count)
    for (i <- 0 until count) {
      order(next(partitions(i))) = i
      next(partitions(i)) += 1
    }
    order
  }

  private def copy(from: Long, until: Long, to: FileChannel): Unit = {
    var at = from
    while (at < until) {
      val some = file.get._2.transferTo(at, until - at, to)
      if (some <= 0) throw new EOFException("a file of frames has become shorter")
      at += some
    }
  }
}

private[records] object FrameFile {

  /** Their places take 12 MiB of the heap, and their order another 4 MiB. */
  val MostFrames: Int = 1 << 20
  private val FirstFrames = 64
  private val WriteBytes = 1 << 20

  private def open(file: File): (File, FileChannel) =
    (file, FileChannel.open(file.toPath, CREATE, TRUNCATE_EXISTING, READ, WRITE))
}
