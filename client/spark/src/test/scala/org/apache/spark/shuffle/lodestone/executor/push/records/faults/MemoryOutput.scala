// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.io.{ByteArrayOutputStream, IOException, OutputStream}
import java.util.{Map => JMap}

import org.apache.spark.shuffle.api._
import org.apache.spark.shuffle.api.metadata.MapOutputCommitMessage

/**
 * A map output in memory, in place of Spark's `spark.shuffle.sort.io.plugin.class`.
 *
 * @param mostBytes
 *   writing fails after this number
 * @param failsToCommit
 *   true if the commit fails, like a rename on a full disk
 * @param forgets
 *   true if it drops one byte of each write, and shows this only in its size
 */
private[records] final class MemoryOutput(
    mostBytes: Long,
    failsToCommit: Boolean,
    forgets: Boolean = false)
    extends ShuffleExecutorComponents {
  private var blocks = Array.empty[ByteArrayOutputStream]
  private var taken = 0L

  /** The faults that occurred. */
  var hit = 0
  var isCommitted = false
  var isAborted = false

  def bytesOf(partition: Int): Array[Byte] =
    Option(blocks(partition)).fold(Array.emptyByteArray)(_.toByteArray)

  override def initializeExecutor(app: String, executor: String, conf: JMap[String, String]): Unit =
    ()

  override def createMapOutputWriter(
      shuffleId: Int,
      mapId: Long,
      numPartitions: Int): ShuffleMapOutputWriter = {
    blocks = new Array[ByteArrayOutputStream](numPartitions)
    new ShuffleMapOutputWriter {
      override def getPartitionWriter(partition: Int): ShufflePartitionWriter = {
        blocks(partition) = new ByteArrayOutputStream
        new Block(blocks(partition))
      }

      override def commitAllPartitions(checksums: Array[Long]): MapOutputCommitMessage = {
        if (failsToCommit) failing("cannot commit")
        isCommitted = true
        MapOutputCommitMessage.of(blocks.map(block => Option(block).fold(0L)(_.size().toLong)))
      }

      override def abort(error: Throwable): Unit = isAborted = true
    }
  }

  private def failing(what: String): Nothing = {
    hit += 1
    throw new IOException(s"on purpose: $what")
  }

  private final class Block(bytes: ByteArrayOutputStream) extends ShufflePartitionWriter {
    override def openStream(): OutputStream = new OutputStream {
      override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

      override def write(from: Array[Byte], start: Int, length: Int): Unit = {
        taken += length
        if (taken > mostBytes) failing("No space left on device")
        bytes.write(from, start, if (forgets) length - 1 else length)
      }
    }

    override def getNumBytesWritten: Long = bytes.size().toLong
  }
}
