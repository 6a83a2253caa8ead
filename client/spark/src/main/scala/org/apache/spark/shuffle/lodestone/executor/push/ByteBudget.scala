// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.apache.spark.shuffle.lodestone.transport.TaskWait

/** `spark.lodestone.push.memory`: who wants bytes waits until there are so many. */
private[push] final class ByteBudget(limitBytes: Long) {
  private var usedBytes = 0L

  /** Somebody has more than there was room for. */
  private var isPassed = false

  /**
   * More than the limit is granted when nothing else is in use: nobody waits for ever.
   *
   * @param alive
   *   throws when nobody wants the bytes any more
   */
  def acquire(bytes: Long)(alive: => Unit): Unit = {
    def isThere = used == 0 || used + bytes <= limitBytes
    await(isThere)(alive)(usedBytes += bytes)
  }

  /**
   * For one who holds bytes, and keeps them until it has these too. Several of them could wait for each
   * other for ever. So one of them does not wait: it goes past the limit.
   *
   * @param isPast
   *   it is that one already
   * @return
   *   it is that one now, as [[release]] must be told
   */
  def extend(bytes: Long, isPast: Boolean)(alive: => Unit): Boolean = {
    def isThere = used + bytes <= limitBytes
    await(isThere || isPast || !isPassed)(alive) {
      val passes = isPast || !isThere
      isPassed ||= passes
      usedBytes += bytes
      passes
    }
  }

  def release(bytes: Long, isPast: Boolean = false): Unit = synchronized {
    usedBytes -= bytes
    if (isPast) isPassed = false
    notifyAll()
  }

  def used: Long = synchronized(usedBytes)

  private def await[T](isGranted: => Boolean)(alive: => Unit)(grant: => T): T = {
    def attempt(): Option[T] = synchronized {
      if (!isGranted) wait(TaskWait.LookMs)
      if (isGranted) Some(grant) else None
    }
    var granted = attempt()
    while (granted.isEmpty) {
      alive
      granted = attempt()
    }
    granted.get
  }
}
