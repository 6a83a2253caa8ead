// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{IOException, InputStream}
import java.util.concurrent.atomic.AtomicBoolean
import java.util.zip.CheckedInputStream

import org.apache.spark.SparkConf
import org.apache.spark.io.LZ4CompressionCodec

/**
 * As if a map output had been bad before it was pushed: once armed, the next shuffle stream breaks
 * while it is read. (Spark computes checksums of shuffle streams, and of no others.)
 */
final class BrokenOriginalCodec(conf: SparkConf) extends LZ4CompressionCodec(conf) {
  override def compressedInputStream(stream: InputStream): InputStream = stream match {
    case _: CheckedInputStream if BrokenOriginalCodec.armed.getAndSet(false) =>
      new InputStream {
        override def read(): Int = throw new IOException("the stream is corrupted")
      }
    case other => super.compressedInputStream(other)
  }
}

object BrokenOriginalCodec {
  val armed = new AtomicBoolean()
}
