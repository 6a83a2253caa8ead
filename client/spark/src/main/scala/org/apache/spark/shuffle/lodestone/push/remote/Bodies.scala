// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.remote

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.shuffle.lodestone.push.{BodyMemory, ByteBudget}
import org.apache.spark.shuffle.lodestone.transport.RequestTimer

/** How many bodies of an executor there may be at a time, and the memory of which they are made. */
private[remote] final class Bodies(val sizeBytes: Int, limitBytes: Long) {
  import Bodies._

  private val budget = new ByteBudget(limitBytes)
  private val isClearing = new AtomicBoolean
  val memory = new BodyMemory

  /** Waits until there is room for one more, or `alive` throws. */
  def begin(alive: => Unit): Unit = budget.acquire(sizeBytes.toLong)(alive)

  /**
   * The body that was begun is made, and takes so much memory: mostly less, as many bodies hold little.
   * One that holds a large record takes more, and the next ones wait for it.
   */
  def made(memoryBytes: Long): Unit = budget.correct(memoryBytes - sizeBytes)

  /** A body that was made is over. */
  def end(memoryBytes: Long): Unit = {
    budget.release(memoryBytes)
    if (budget.used == 0 && isClearing.compareAndSet(false, true)) {
      RequestTimer.after(IdleMs) {
        isClearing.set(false)
        if (budget.used == 0) memory.clear()
      }
      ()
    }
  }

  /** A body that was begun is not made. */
  def drop(): Unit = end(sizeBytes.toLong)
}

private[remote] object Bodies {

  /** Between tasks that follow one another memory is kept. */
  private val IdleMs = 10000L
}
