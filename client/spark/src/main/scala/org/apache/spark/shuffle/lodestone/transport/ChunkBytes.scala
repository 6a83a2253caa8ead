// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import io.netty.buffer.{ByteBuf, Unpooled}
import io.netty.util.ReferenceCountUtil

import org.apache.spark.network.buffer.ManagedBuffer

/** The bytes of a chunk, which whoever asks releases. */
private[lodestone] object ChunkBytes {

  /** In the pieces in which they came: Spark's own way to look at them puts a copy together. */
  def apply(data: ManagedBuffer): ByteBuf = data.convertToNetty() match {
    case bytes: ByteBuf => bytes
    case other =>
      ReferenceCountUtil.release(other)
      Unpooled.wrappedBuffer(data.nioByteBuffer())
  }
}
