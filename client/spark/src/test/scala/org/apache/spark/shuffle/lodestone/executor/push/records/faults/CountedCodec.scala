// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.io.{FilterOutputStream, InputStream, OutputStream}
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.SparkConf
import org.apache.spark.io.{CompressionCodec, SnappyCompressionCodec}

/** Counts open streams, because streams may have memory outside the JVM's heap. */
final class CountedCodec(conf: SparkConf) extends CompressionCodec {
  private val inner = new SnappyCompressionCodec(conf)

  override def compressedOutputStream(out: OutputStream): OutputStream = {
    CountedCodec.open.incrementAndGet()
    new FilterOutputStream(inner.compressedOutputStream(out)) {
      private var isClosed = false

      override def write(bytes: Array[Byte], start: Int, length: Int): Unit =
        this.out.write(bytes, start, length)

      override def close(): Unit = {
        if (!isClosed) CountedCodec.open.decrementAndGet()
        isClosed = true
        super.close()
      }
    }
  }

  override def compressedInputStream(in: InputStream): InputStream =
    inner.compressedInputStream(in)
}

object CountedCodec {
  val open = new AtomicInteger()
}
