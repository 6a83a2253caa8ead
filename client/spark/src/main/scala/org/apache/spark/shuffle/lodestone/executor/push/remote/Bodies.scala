// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.shuffle.lodestone.executor.push.{BodyMemory, ByteBudget}
import org.apache.spark.shuffle.lodestone.transport.RequestTimer

/** How many bodies of an executor there may be at a time, and the memory of which they are made. */
private[remote] final class Bodies(val sizeBytes: Int, limitBytes: Long, memory: BodyMemory) {
  import Bodies._

  private val budget = new ByteBudget(limitBytes)
  private val isClearing = new AtomicBoolean

  /** A body takes whole pieces. */
  private val reserveBytes = {
    val pieces = (sizeBytes + BodyMemory.PieceBytes - 1) / BodyMemory.PieceBytes
    pieces.toLong * BodyMemory.PieceBytes
  }

  def this(sizeBytes: Int, limitBytes: Long) = this(sizeBytes, limitBytes, new BodyMemory)

  /** Waits until there is room for one more, or `alive` throws. */
  def begin(alive: () => Unit): BodyRoom = {
    budget.acquire(reserveBytes)(alive())
    new BodyRoom(reserveBytes, budget, memory, alive, () => clearWhenIdle())
  }

  def usedBytes: Long = budget.used

  private def clearWhenIdle(): Unit =
    if (budget.used == 0 && isClearing.compareAndSet(false, true)) {
      RequestTimer.after(IdleMs) {
        isClearing.set(false)
        if (budget.used == 0) memory.clear()
      }
      ()
    }
}

private[remote] object Bodies {

  /** Between tasks that follow one another memory is kept. */
  private val IdleMs = 10000L
}
