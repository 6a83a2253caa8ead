// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.shuffle.lodestone.engine.FrameReservation
import org.apache.spark.shuffle.lodestone.executor.push.ByteBudget

/**
 * The frames that engines of an executor are about to encode. The limit is passed if nothing else
 * is announced, or after a wait: those who have announced frames may wait for memory of Spark that
 * the caller has.
 */
private[remote] final class FrameReservations(
    limitBytes: Long,
    longestWaitNs: Long = FrameReservations.LongestWaitNs) {
  private val budget = new ByteBudget(limitBytes)

  /** @param alive throws when the attempt has ended */
  def take(bytes: Long)(alive: () => Unit): FrameReservation = {
    alive()
    budget.acquireWithin(bytes, longestWaitNs)(alive())
    val isOpen = new AtomicBoolean(true)
    () => if (isOpen.compareAndSet(true, false)) budget.release(bytes)
  }

  def usedBytes: Long = budget.used
}

private[remote] object FrameReservations {

  /** Longer than the encoding of a frame takes, as a rule. */
  private val LongestWaitNs = TimeUnit.SECONDS.toNanos(5)
}
