// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import java.io.{FilterOutputStream, InputStream, OutputStream}

import org.apache.spark.SparkEnv
import org.apache.spark.network.util.LimitedInputStream
import org.apache.spark.serializer.SerializerManager
import org.apache.spark.util.Utils

/**
 * IO encryption (`spark.io.encryption.enabled`). Each block, and each segment of one, is encrypted
 * alone: it begins with its initialisation vector, and a key stream of its own follows. So bytes
 * are encrypted after they are compressed, and decrypted before.
 */
private[executor] final class BlockEncryption(streams: SerializerManager) {

  /** Encrypts what `write` writes, as one block. The stream below stays open. */
  def writing[T](to: OutputStream)(write: OutputStream => T): T =
    if (!streams.encryptionEnabled) write(to)
    else {
      val target = new UnclosedStream(to)
      // Its cipher has memory outside of the heap, which should not wait for a finalizer.
      val encrypted = streams.wrapForEncryption(target)
      var isWhole = false
      Utils.tryWithSafeFinally {
        val result = write(encrypted)
        isWhole = true
        result
      } {
        // Nobody needs the rest of a block that failed, and its target may wait for memory.
        if (!isWhole) target.drop()
        encrypted.close()
      }
    }

  /** Decrypts one block. */
  def reading(block: InputStream): InputStream = streams.wrapForEncryption(block)

  /** Decrypts segments, which follow one another in the stream. They have these lengths. */
  def reading(segments: InputStream, lengths: => Iterator[Int]): InputStream =
    if (streams.encryptionEnabled) new DecryptedSegments(segments, lengths, this) else segments
}

private[executor] object BlockEncryption {
  def apply(): BlockEncryption = new BlockEncryption(SparkEnv.get.serializerManager)
}

/** Segments in a row, each decrypted with its own initialisation vector. */
private final class DecryptedSegments(
    in: InputStream,
    lengths: Iterator[Int],
    encryption: BlockEncryption)
    extends InputStream {
  private var segment: InputStream = _
  private val one = new Array[Byte](1)

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int = {
    var count = if (length == 0) 0 else -1
    while (count < 0 && hasSegment) {
      count = segment.read(target, offset, length)
      if (count < 0) endSegment()
    }
    count
  }

  private def hasSegment: Boolean = {
    if (segment == null && lengths.hasNext) {
      segment = encryption.reading(new LimitedInputStream(in, lengths.next().toLong, false))
    }
    segment != null
  }

  private def endSegment(): Unit = {
    segment.close()
    segment = null
  }

  override def close(): Unit =
    try if (segment != null) endSegment()
    finally in.close()
}

/** Closes the streams of a block, but not their target, which other blocks follow. */
private[executor] final class UnclosedStream(to: OutputStream) extends FilterOutputStream(to) {
  private var isDropped = false

  /** From now on nothing goes to the target, which may be closed. */
  def drop(): Unit = isDropped = true

  override def write(byte: Int): Unit = if (!isDropped) to.write(byte)
  override def write(bytes: Array[Byte], start: Int, length: Int): Unit =
    if (!isDropped) to.write(bytes, start, length)
  override def flush(): Unit = if (!isDropped) to.flush()
  override def close(): Unit = flush()
}
