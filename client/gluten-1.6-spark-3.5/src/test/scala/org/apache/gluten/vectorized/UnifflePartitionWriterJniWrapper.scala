// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.vectorized

import org.apache.gluten.runtime.{Runtime, RuntimeAware}

import org.apache.spark.shuffle.lodestone.gluten.FakeVelox

/**
 * The class of Lodestone's jar, with what libvelox does in place of its native method. It comes
 * first on the class path of the tests, as that of a Gluten that was built with Uniffle may.
 */
class UnifflePartitionWriterJniWrapper private (runtime: Runtime) extends RuntimeAware {
  override def rtHandle: Long = runtime.getHandle

  def createPartitionWriter(
      numPartitions: Int,
      codec: String,
      codecBackend: String,
      compressionLevel: Int,
      compressionBufferSize: Int,
      pushBufferMaxSize: Int,
      sortBufferMaxSize: Long,
      pusher: Object): Long =
    FakeVelox.pushingTo(getClass.getClassLoader, numPartitions, pusher)
}

object UnifflePartitionWriterJniWrapper {
  def create(runtime: Runtime): UnifflePartitionWriterJniWrapper =
    new UnifflePartitionWriterJniWrapper(runtime)
}
