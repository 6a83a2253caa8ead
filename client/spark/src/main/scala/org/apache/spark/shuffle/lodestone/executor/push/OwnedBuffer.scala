// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import io.netty.buffer.ByteBuf

import org.apache.spark.network.buffer.{ManagedBuffer, NettyManagedBuffer}

/**
 * Bytes that stay their owner's. What Spark's transport does with its references is of no consequence:
 * while it writes it holds one of its own.
 */
private[push] final class OwnedBuffer(bytes: ByteBuf) extends NettyManagedBuffer(bytes) {
  override def retain(): ManagedBuffer = this
  override def release(): ManagedBuffer = this
}
