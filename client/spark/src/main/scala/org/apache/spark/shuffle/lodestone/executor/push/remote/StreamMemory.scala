// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}

/**
 * Spark's memory for bytes in streams on the heap. As with pages of records, the first bytes are
 * free: a task without memory pushes small segments, and goes on.
 */
private[remote] final class StreamMemory(memory: TaskMemoryManager)
    extends MemoryConsumer(memory, memory.pageSizeBytes(), MemoryMode.ON_HEAP) {
  import StreamMemory._

  /** Asks for the rest of so many bytes. Returns false if memory is short. */
  def isEnoughFor(bytes: Long): Boolean = {
    val missing = bytes - FreeBytes - getUsed
    missing <= 0 || acquireMemory(math.max(missing, StepBytes)) >= missing
  }

  /** Gives all back. */
  def free(): Unit = freeMemory(getUsed)

  /** It spills only for itself, when [[isEnoughFor]] returns false. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
}

private[remote] object StreamMemory {

  /** As much as a task has without asking for records whose bytes can be moved. */
  private val FreeBytes = 1L << 20

  /** Spark's memory is shared by all tasks, behind one lock. */
  private val StepBytes = 1L << 20
}
