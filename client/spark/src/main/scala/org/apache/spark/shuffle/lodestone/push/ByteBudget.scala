// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

/** `spark.lodestone.push.memory`: who wants bytes waits until there are so many. */
private[push] final class ByteBudget(limitBytes: Long) {
  private var usedBytes = 0L

  /** More than the limit is granted when nothing else is in use: nobody waits for ever. */
  def acquire(bytes: Long): Unit = synchronized {
    while (usedBytes > 0 && usedBytes + bytes > limitBytes) wait()
    usedBytes += bytes
  }

  def release(bytes: Long): Unit = synchronized {
    usedBytes -= bytes
    notifyAll()
  }

  def used: Long = synchronized(usedBytes)
}
