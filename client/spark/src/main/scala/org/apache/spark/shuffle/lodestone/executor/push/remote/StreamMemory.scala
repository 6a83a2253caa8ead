// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}

/**
 * Memory of Spark's for bytes in streams on the heap. As with pages of records the first of them are not
 * asked for: with no memory at all a task pushes small segments, and goes on.
 */
private[remote] final class StreamMemory(memory: TaskMemoryManager)
    extends MemoryConsumer(memory, memory.pageSizeBytes(), MemoryMode.ON_HEAP) {
  import StreamMemory._

  /** Asks for what is missing for so many bytes. False: memory is short, and they have to go. */
  def isEnoughFor(bytes: Long): Boolean = {
    val missing = bytes - FreeBytes - getUsed
    missing <= 0 || acquireMemory(math.max(missing, StepBytes)) >= missing
  }

  /** Gives all back. */
  def free(): Unit = freeMemory(getUsed)

  /** Only for itself, and that is done where it is told that there is no more. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
}

private[remote] object StreamMemory {

  /** As much as a task has of its own for records whose bytes can be moved. */
  private val FreeBytes = 1L << 20

  /** Spark's memory is shared by all tasks, behind one lock. */
  private val StepBytes = 1L << 20
}
