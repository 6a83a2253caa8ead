// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import org.apache.spark.shuffle.lodestone.transport.TaskWait

/** `spark.lodestone.push.memory`: who wants bytes waits until there are so many. */
private[push] final class ByteBudget(limitBytes: Long) {
  private var usedBytes = 0L

  /**
   * More than the limit is granted when nothing else is in use: nobody waits for ever.
   *
   * @param alive
   *   throws when nobody wants the bytes any more
   */
  def acquire(bytes: Long)(alive: => Unit): Unit = {
    while (!tryAcquire(bytes)) alive
  }

  /** Waits, but not for long. */
  private def tryAcquire(bytes: Long): Boolean = synchronized {
    def isThere = usedBytes == 0 || usedBytes + bytes <= limitBytes
    if (!isThere) wait(TaskWait.LookMs)
    val granted = isThere
    if (granted) usedBytes += bytes
    granted
  }

  /** Of what was acquired so much more is in use than was said, or less. Does not wait. */
  def correct(bytes: Long): Unit = release(-bytes)

  def release(bytes: Long): Unit = synchronized {
    usedBytes -= bytes
    notifyAll()
  }

  def used: Long = synchronized(usedBytes)
}
