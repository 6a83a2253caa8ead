// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.shuffle.lodestone.engine.FrameReservation
import org.apache.spark.shuffle.lodestone.transport.TaskWait

/**
 * The frames that engines of an executor are about to encode. The limit is passed if nothing else
 * is announced, or after a wait: those who have announced frames may wait for memory of Spark that
 * the caller has.
 */
private[remote] final class FrameReservations(
    limitBytes: Long,
    longestWaitNs: Long = FrameReservations.LongestWaitNs) {
  private var used = 0L

  /** @param alive throws when the attempt has ended */
  def take(bytes: Long)(alive: () => Unit): FrameReservation = {
    val untilNs = System.nanoTime() + longestWaitNs
    var isTaken = false
    while (!isTaken) {
      alive()
      isTaken = synchronized {
        def hasRoom = used == 0 || used + bytes <= limitBytes || System.nanoTime() >= untilNs
        if (!hasRoom) {
          val leftMs = TimeUnit.NANOSECONDS.toMillis(untilNs - System.nanoTime())
          wait(math.max(1, math.min(TaskWait.LookMs, leftMs)))
        }
        val isGranted = hasRoom
        if (isGranted) used += bytes
        isGranted
      }
    }
    val isOpen = new AtomicBoolean(true)
    () => if (isOpen.compareAndSet(true, false)) give(bytes)
  }

  def usedBytes: Long = synchronized(used)

  private def give(bytes: Long): Unit = synchronized {
    used -= bytes
    notifyAll()
  }
}

private[remote] object FrameReservations {

  /** Longer than the encoding of a frame takes, as a rule. */
  private val LongestWaitNs = TimeUnit.SECONDS.toNanos(5)
}
