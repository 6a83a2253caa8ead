// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.apache.spark.shuffle.lodestone.config.Logged

import java.io.{File, IOException}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, Paths}
import java.nio.file.StandardOpenOption.{CREATE_NEW, DELETE_ON_CLOSE, READ, WRITE}

import scala.util.Random

import com.sun.nio.file.ExtendedOpenOption.DIRECT

/**
 * Measures a small random read from a local disk, past the page cache: it needs a seek, or none. An
 * executor does this a few times, off the task threads, and writes a megabyte for it.
 */
private[lodestone] object DiskProbe extends Logged {

  val Unknown: Long = -1L

  /** A seek on a disk that turns. */
  private val SeekMicros = 8000L
  private val FileBytes = 1 << 20
  private val ReadBytes = 4096
  private val Reads = 64
  private val NanosPerMicro = 1000L

  /** Measures the first directory: Spark spreads over disks of one kind. */
  def readMicros(localDirs: Seq[File]): Long =
    localDirs.headOption.map(dir => readMicros(dir.toPath, Paths.get("/sys"))).getOrElse(Unknown)

  private[push] def readMicros(dir: Path, sys: Path): Long =
    try {
      val measured = measure(dir)
      // Such a disk still has in its own memory what has just been written.
      if (measured >= 0 && turns(dir, sys)) math.max(measured, SeekMicros) else measured
    } catch {
      // A file system without direct reads (one in memory), or another platform.
      case failure @ (_: IOException | _: UnsupportedOperationException) =>
        log.debug(s"The speed of $dir is not known: ${failure.getMessage}")
        Unknown
    }

  private def measure(dir: Path): Long = {
    val alignment = Files.getFileStore(dir).getBlockSize.toInt
    val path = dir.resolve(s"lodestone-probe-${java.util.UUID.randomUUID}")
    val file = FileChannel.open(path, CREATE_NEW, READ, WRITE, DIRECT, DELETE_ON_CLOSE)
    try {
      val data = ByteBuffer.allocateDirect(FileBytes + alignment).alignedSlice(alignment)
      data.limit(FileBytes)
      while (data.hasRemaining) file.write(data)
      val small = ByteBuffer.allocateDirect(ReadBytes + alignment).alignedSlice(alignment)
      val random = new Random
      val times = Seq.fill(Reads) {
        small.clear().limit(ReadBytes)
        val began = System.nanoTime()
        file.read(small, random.nextInt(FileBytes / ReadBytes).toLong * ReadBytes)
        (System.nanoTime() - began) / NanosPerMicro
      }
      typical(times)
    } finally file.close()
  }

  /**
   * The mean: a throttled disk lets a burst of reads through, and makes the next read wait for all
   * of them. The slowest read does not count, as on any disk one read may be slow by accident.
   */
  private[push] def typical(times: Seq[Long]): Long = times.sorted.init.sum / (times.size - 1)

  /**
   * Returns whether the kernel calls it a real disk that turns. Virtual disks are called so
   * whatever they are: for them only the measurement counts.
   */
  private[push] def turns(dir: Path, sys: Path): Boolean = {
    val device = Files.getAttribute(dir, "unix:dev").asInstanceOf[Long]
    val node = sys.resolve("dev/block").resolve(numbers(device))
    if (Files.exists(node)) {
      val real = node.toRealPath()
      val disk = if (Files.exists(real.resolve("partition"))) real.getParent else real
      disk.getFileName.toString.startsWith("sd") &&
      line(disk.resolve("queue/rotational")) == "1" &&
      !Hypervisors.contains(line(disk.resolve("device/vendor")))
    } else {
      false
    }
  }

  private val Hypervisors = Set("QEMU", "VMware", "Msft", "Google", "VBOX")

  private def line(file: Path): String =
    if (Files.exists(file)) Files.readAllLines(file).get(0).trim else ""

  /** `major:minor`, which glibc packs into one number. */
  private[push] def numbers(device: Long): String = {
    val major = ((device >>> 8) & 0xfffL) | ((device >>> 32) & ~0xfffL)
    val minor = (device & 0xffL) | ((device >>> 12) & ~0xffL)
    s"$major:$minor"
  }
}
