// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{BufferedInputStream, BufferedOutputStream, Closeable, EOFException, File}
import java.io.{FileInputStream, FileOutputStream, InputStream, IOException, OutputStream}
import java.util.Arrays

import org.apache.spark.serializer.SerializerManager
import org.apache.spark.storage.DiskBlockManager
import org.apache.spark.util.Utils

/** Creates files for spills. A test can replace it by disks that fill up, fail, or lose bytes. */
private[records] trait SpillFiles {
  def create(): SpillFile
}

/** A file that is written once, then read, then deleted. */
private[records] trait SpillFile {
  def write(): OutputStream
  def read(): InputStream

  /** Does not fail: a file that remains is removed with its executor's directory. */
  def delete(): Unit
  def name: String
}

/**
 * Temporary files in Spark's local directories, where Spark's own writers spill. With IO encryption
 * each file is encrypted as a whole.
 */
private[records] final class LocalSpillFiles(disks: DiskBlockManager, streams: SerializerManager)
    extends SpillFiles {
  override def create(): SpillFile = new SpillFile {
    private val file: File = disks.createTempShuffleBlock()._2

    override def write(): OutputStream = opened[OutputStream](new FileOutputStream(file)) { out =>
      streams.wrapForEncryption(new BufferedOutputStream(out, Spill.BufferBytes))
    }

    override def read(): InputStream = opened[InputStream](new FileInputStream(file)) { in =>
      streams.wrapForEncryption(new BufferedInputStream(in, Spill.BufferBytes))
    }

    /** A cipher reads or writes its initialisation vector at once, and few bytes at a time. */
    private def opened[S <: Closeable](plain: S)(encrypted: S => S): S =
      if (!streams.encryptionEnabled) plain
      else {
        var isOpen = false
        try {
          val stream = encrypted(plain)
          isOpen = true
          stream
        } finally {
          if (!isOpen) plain.close()
        }
      }

    override def delete(): Unit = {
      file.delete()
      ()
    }
    override def name: String = file.getPath
  }
}

/**
 * A part of a map output that left memory: blocks in the order of their partitions. It exists only
 * if it is whole. A spill that cannot be written has no file, and ends its task.
 */
private[records] final class Spill private (file: SpillFile, index: SpillIndex) {
  def bytes: Long = index.bytes

  def open(): Spill.Reader = new Spill.Reader(file, index)

  def delete(): Unit = file.delete()
}

private[records] object Spill {
  private[records] val BufferBytes = 256 * 1024

  /** Writes a spill to a new file. `content` adds each block to the index when it is written. */
  def write(files: SpillFiles)(content: (BlockOutput, SpillIndex) => Unit): Spill = {
    val file = files.create()
    var whole = false
    try {
      val index = new SpillIndex
      val out = new BlockOutput(new BufferedOutputStream(file.write(), BufferBytes), None)
      Utils.tryWithSafeFinally(content(out, index))(out.close())
      if (index.bytes != out.bytes) {
        throw new IOException(s"${out.bytes} bytes were spilled in blocks of ${index.bytes} bytes")
      }
      whole = true
      new Spill(file, index)
    } finally {
      if (!whole) file.delete()
    }
  }

  final class Reader(file: SpillFile, index: SpillIndex) extends AutoCloseable {
    private val in: InputStream = file.read()
    private val copied = new Array[Byte](BufferBytes)
    private var next = 0

    def has(partition: Int): Boolean = next < index.count && index.partition(next) == partition

    /** Copies the block of the partition, which must be the next one. Returns its records. */
    def copy(partition: Int, to: OutputStream): Long = {
      require(has(partition), s"$partition is not the next partition of a spill")
      var left = index.length(next)
      while (left > 0) {
        val count = in.read(copied, 0, math.min(copied.length.toLong, left).toInt)
        if (count < 0) throw missing(left)
        to.write(copied, 0, count)
        left -= count
      }
      val records = index.records(next)
      next += 1
      records
    }

    /** Checks after the last partition that the whole spill was read. */
    def finish(): Unit = if (next != index.count || in.read() >= 0) {
      throw new IOException(s"not all of ${file.name} was read: $next of ${index.count} blocks")
    }

    private def missing(bytes: Long): IOException =
      new EOFException(s"$bytes bytes of a spilled block are missing in ${file.name}")

    override def close(): Unit = in.close()
  }
}

/** The blocks of a spill that are not empty, in the order of their partitions. */
private[records] final class SpillIndex {
  private var partitions = new Array[Int](64)
  private var lengths = new Array[Long](64)
  private var counts = new Array[Long](64)
  private var filled = 0
  private var end = 0L

  /** Adds the next block, which ends at the byte `at` of the spill. */
  def ended(partition: Int, at: Long, records: Long): Unit = {
    if (filled == partitions.length) grow()
    partitions(filled) = partition
    lengths(filled) = at - end
    counts(filled) = records
    filled += 1
    end = at
  }

  def count: Int = filled
  def bytes: Long = end

  def partition(i: Int): Int = partitions(i)
  def length(i: Int): Long = lengths(i)
  def records(i: Int): Long = counts(i)

  private def grow(): Unit = {
    partitions = Arrays.copyOf(partitions, filled * 2)
    lengths = Arrays.copyOf(lengths, filled * 2)
    counts = Arrays.copyOf(counts, filled * 2)
  }
}
