// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{InputStream, OutputStream}
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.SparkConf
import org.apache.spark.io.LZ4CompressionCodec

/**
 * Once armed with the size of a row, the next stream begins with its first row twice: a map output
 * of SQL rows with more than its task knows of.
 */
final class DoublingRowsCodec(conf: SparkConf) extends LZ4CompressionCodec(conf) {
  override def compressedOutputStream(stream: OutputStream): OutputStream = {
    val whole = super.compressedOutputStream(stream)
    val rowBytes = DoublingRowsCodec.rowBytes.getAndSet(0)
    if (rowBytes > 0) new DoublingStart(whole, rowBytes) else whole
  }

  override def compressedInputStream(stream: InputStream): InputStream =
    super.compressedInputStream(stream)
}

object DoublingRowsCodec {

  /** The bytes of a row with its size; 0: not armed. */
  val rowBytes = new AtomicInteger()
}

private final class DoublingStart(whole: OutputStream, size: Int) extends OutputStream {
  private val start = new Array[Byte](size)
  private var seen = 0

  override def write(byte: Int): Unit = {
    whole.write(byte)
    if (seen < size) {
      start(seen) = byte.toByte
      seen += 1
      if (seen == size) whole.write(start)
    }
  }

  override def flush(): Unit = whole.flush()

  override def close(): Unit = whole.close()
}
