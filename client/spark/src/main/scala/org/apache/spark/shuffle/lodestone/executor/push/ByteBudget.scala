// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.apache.spark.shuffle.lodestone.transport.TaskWait

/**
 * A limit of bytes. More than the limit is granted if nothing else is in use: nobody waits for
 * ever.
 */
private[push] final class ByteBudget(limitBytes: Long) {
  private var usedBytes = 0L

  /** A caller of `extend` has more than there was room for. */
  private var isPassed = false

  /** @param alive throws when nobody wants the bytes any more */
  def acquire(bytes: Long)(alive: => Unit): Unit =
    await(hasRoom(bytes))(alive)(usedBytes += bytes)

  /** Waits for room no longer than this, and goes past the limit then. */
  def acquireWithin(bytes: Long, longestNs: Long)(alive: => Unit): Unit = {
    val untilNs = System.nanoTime() + longestNs
    await(hasRoom(bytes) || System.nanoTime() >= untilNs)(alive)(usedBytes += bytes)
  }

  /** Returns false if there is no room now. */
  def tryAcquire(bytes: Long): Boolean = synchronized {
    val isGranted = hasRoom(bytes)
    if (isGranted) usedBytes += bytes
    isGranted
  }

  /**
   * For a caller that keeps the bytes that it holds while it waits for more. Several of them could
   * wait for each other forever. So one of them does not wait: it goes past the limit.
   *
   * @param isPast
   *   this caller is past the limit already
   * @return
   *   whether it is now: an argument of [[release]]
   */
  def extend(bytes: Long, isPast: Boolean)(alive: => Unit): Boolean = {
    def fits = used + bytes <= limitBytes
    await(fits || isPast || !isPassed)(alive) {
      val passes = isPast || !fits
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

  private def hasRoom(bytes: Long): Boolean = used == 0 || used + bytes <= limitBytes

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
