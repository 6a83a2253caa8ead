// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.io.IOException

import org.apache.spark.memory.{MemoryConsumer, TaskMemoryManager}

/** The reaction of another consumer of the task to a spill request. */
private[push] sealed trait Manners
private[push] object Manners {

  /** It keeps all. */
  case object Stubborn extends Manners

  /** It gives all back. */
  case object Generous extends Manners

  /** It loses some of its rows. */
  case object Broken extends Manners
}

/** A sort or a hash map of the same task, which holds memory. */
private[push] final class OtherConsumer(memory: TaskMemoryManager, manners: Manners)
    extends MemoryConsumer(memory, memory.pageSizeBytes(), memory.getTungstenMemoryMode) {

  /** The faults that occurred. */
  var hit = 0

  /** Takes all but so many bytes. */
  def hoard(but: Long): Unit = {
    while (acquireMemory(4L << 20) == (4L << 20)) {}
    freeMemory(math.min(but, getUsed))
  }

  def giveBack(): Unit = freeMemory(getUsed)

  override def spill(size: Long, trigger: MemoryConsumer): Long = manners match {
    case _ if trigger eq this => 0L
    case Manners.Stubborn => 0L
    case Manners.Generous =>
      val all = getUsed
      freeMemory(all)
      all
    case Manners.Broken =>
      hit += 1
      throw new IOException("on purpose: rows of a sort are lost")
  }
}
