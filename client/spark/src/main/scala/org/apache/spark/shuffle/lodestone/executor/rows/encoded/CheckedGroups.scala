// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.InputStream

/**
 * The bytes of one block after another, each row group only after its checksum has proved right: a
 * reader of the stream gets an error before any byte of a group that is damaged. The error comes
 * out of the stream, as one of a codec does, so Spark looks for its cause, and may fetch the block
 * again. The caller must have read the last stream to its end: all share a buffer.
 */
private[executor] final class CheckedGroups extends (InputStream => InputStream) {
  private val group = new RowGroupBytes

  override def apply(in: InputStream): InputStream = new CheckedStream(in, group)
}

private final class CheckedStream(in: InputStream, group: RowGroupBytes) extends InputStream {
  private val one = new Array[Byte](1)

  /** The place in the head and the body of the group. */
  private var at = 0
  private var end = 0

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (at == end && !next()) -1
    else {
      val (from, start, left) =
        if (at < RowGroupHead.HeadBytes) (group.headArray, at, RowGroupHead.HeadBytes - at)
        else (group.body, at - RowGroupHead.HeadBytes, end - at)
      val some = math.min(length, left)
      System.arraycopy(from, start, target, offset, some)
      at += some
      some
    }

  private def next(): Boolean = {
    val hasNext = group.readHead(in)
    if (hasNext) {
      group.readBody(in)
      group.checkBytes()
      at = 0
      end = RowGroupHead.HeadBytes + group.packedBytes
    }
    hasNext
  }

  override def close(): Unit = in.close()
}
