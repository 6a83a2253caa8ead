// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{IOException, InputStream}
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.SparkConf
import org.apache.spark.io.LZ4CompressionCodec

/**
 * As a codec that reads the head of a stream when it is opened, as snappy does: once armed, the
 * next stream of merged data cannot be opened. (No other stream is of this class.)
 */
final class UnopenedChunkCodec(conf: SparkConf) extends LZ4CompressionCodec(conf) {
  override def compressedInputStream(stream: InputStream): InputStream = {
    if (stream.isInstanceOf[SlicesStream] && UnopenedChunkCodec.armed.getAndSet(false)) {
      throw new IOException("the head of the stream is corrupted")
    }
    super.compressedInputStream(stream)
  }
}

object UnopenedChunkCodec {
  val armed = new AtomicBoolean()
}
