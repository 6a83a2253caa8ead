// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.shuffle.lodestone.transport.RequestTimer

/**
 * The buffers of an executor: `spark.lodestone.push.memory` limits what they hold together.
 *
 * @param sizeBytes
 *   at which a buffer is full
 */
private[lodestone] final class SegmentBuffers(
    val sizeBytes: Int,
    limitBytes: Long,
    pool: PiecePool = new PiecePool) {
  import SegmentBuffers._

  private val budget = new ByteBudget(limitBytes)
  private val isClearing = new AtomicBoolean

  /** A buffer takes whole pieces if nobody knows how much comes. */
  private val reserveBytes = {
    val pieces = (sizeBytes + PiecePool.PieceBytes - 1) / PiecePool.PieceBytes
    pieces.toLong * PiecePool.PieceBytes
  }

  /** For a buffer that a task fills. Waits until there is room, or `alive` throws. */
  def reserve(alive: () => Unit): SegmentBuffer =
    reserve(reserveBytes, isRequired = true, alive, whenFree = () => ())

  /**
   * For a buffer of known size, which may fail if there is no direct memory. Waits until there is
   * room. `whenFree` runs once, also if the wait fails.
   */
  def reserve(bytes: Int, whenFree: () => Unit): SegmentBuffer =
    reserve(bytes.toLong, isRequired = false, alive = () => (), whenFree)

  private def reserve(
      bytes: Long,
      isRequired: Boolean,
      alive: () => Unit,
      whenFree: () => Unit): SegmentBuffer = {
    val fromNs = System.nanoTime()
    val free = () => {
      clearWhenIdle()
      whenFree()
    }
    var isGranted = false
    try {
      budget.acquire(bytes)(alive())
      isGranted = true
    } finally {
      if (!isGranted) free()
    }
    new SegmentBuffer(fromNs, bytes, budget, pool, isRequired, alive, free)
  }

  def usedBytes: Long = budget.used

  private def clearWhenIdle(): Unit =
    if (budget.used == 0 && isClearing.compareAndSet(false, true)) {
      RequestTimer.after(IdleMs) {
        isClearing.set(false)
        if (budget.used == 0) pool.clear()
      }
      ()
    }
}

private[lodestone] object SegmentBuffers {

  /** Between tasks that follow one another memory is kept. */
  private val IdleMs = 10000L
}
