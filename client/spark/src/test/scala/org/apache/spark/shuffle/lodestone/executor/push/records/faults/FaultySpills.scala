// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream, IOException, OutputStream}

import org.apache.spark.TaskKilledException
import org.apache.spark.shuffle.lodestone.executor.push.records.{SpillFile, SpillFiles}

/** A fault of the disk under one spill. */
private[records] sealed trait SpillFault
private[records] object SpillFault {
  case object None extends SpillFault

  /** The file cannot be created. */
  case object Create extends SpillFault

  /** No more than so many bytes can be written. */
  final case class Full(bytes: Int) extends SpillFault

  /** The task is killed when so many bytes are written. */
  final case class Killed(bytes: Int) extends SpillFault

  /** The last bytes stay in a buffer of the system, which cannot write them: only `close` fails. */
  case object Close extends SpillFault

  /** So many bytes at the end are lost without an error. */
  final case class Short(bytes: Int) extends SpillFault

  /** It was written, and cannot be opened. */
  case object Open extends SpillFault

  /** It can be read up to this byte. */
  final case class Unreadable(from: Int) extends SpillFault
}

/** Spills in memory. Each has the fault of its number. */
private[records] final class FaultySpills(faultOf: Int => SpillFault) extends SpillFiles {
  private var created = 0
  private var kept = 0

  /** The faults that occurred. */
  var hit = 0

  /** The files that were created, and those that were not deleted. */
  def count: Int = created
  def left: Int = kept

  override def create(): SpillFile = {
    val fault = faultOf(created)
    created += 1
    if (fault == SpillFault.Create) failing("cannot create a file")
    kept += 1
    new File(created - 1, fault)
  }

  private def failing(what: String): Nothing = {
    hit += 1
    throw new IOException(s"on purpose: $what")
  }

  private final class File(number: Int, fault: SpillFault) extends SpillFile {
    private val bytes = new ByteArrayOutputStream
    private var isDeleted = false

    override def name: String = s"spill $number"

    override def write(): OutputStream = new OutputStream {
      override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

      override def write(from: Array[Byte], start: Int, length: Int): Unit = fault match {
        case SpillFault.Full(most) if bytes.size() + length > most =>
          bytes.write(from, start, math.max(0, most - bytes.size()))
          failing("No space left on device")
        case SpillFault.Killed(after) if bytes.size() + length > after =>
          hit += 1
          throw new TaskKilledException("on purpose")
        case _ => bytes.write(from, start, length)
      }

      override def close(): Unit = if (fault == SpillFault.Close) failing("cannot close")
    }

    override def read(): InputStream = if (isDeleted) gone() else opened()

    private def gone(): Nothing = throw new IOException(s"$name was deleted before it was read")

    private def opened(): InputStream = fault match {
      case SpillFault.Open => failing("cannot open")
      case SpillFault.Short(missing) if missing > 0 && bytes.size() > 0 =>
        hit += 1
        new ByteArrayInputStream(bytes.toByteArray, 0, math.max(0, bytes.size() - missing))
      case SpillFault.Unreadable(from) => new Broken(bytes.toByteArray, from)
      case _ => new ByteArrayInputStream(bytes.toByteArray)
    }

    override def delete(): Unit = if (!isDeleted) {
      isDeleted = true
      kept -= 1
    }
  }

  private final class Broken(all: Array[Byte], from: Int) extends InputStream {
    private var at = 0

    override def read(): Int = {
      val one = new Array[Byte](1)
      if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
    }

    override def read(to: Array[Byte], start: Int, length: Int): Int = {
      if (at >= all.length) {
        -1
      } else {
        if (at + length > from) failing("Input/output error")
        val count = math.min(length, all.length - at)
        System.arraycopy(all, at, to, start, count)
        at += count
        count
      }
    }
  }
}
