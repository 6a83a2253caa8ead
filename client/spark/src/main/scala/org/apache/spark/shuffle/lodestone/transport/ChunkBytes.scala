// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import io.netty.buffer.{ByteBuf, Unpooled}
import io.netty.util.ReferenceCountUtil

import org.apache.spark.network.buffer.ManagedBuffer

/** Returns the bytes of a chunk. The caller releases them. */
private[lodestone] object ChunkBytes {

  /** Keeps the buffers in which the bytes arrived: Spark's `nioByteBuffer` would copy them. */
  def apply(data: ManagedBuffer): ByteBuf = data.convertToNetty() match {
    case bytes: ByteBuf => bytes
    case other =>
      ReferenceCountUtil.release(other)
      Unpooled.wrappedBuffer(data.nioByteBuffer())
  }
}
