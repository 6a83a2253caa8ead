// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows

import org.apache.spark.unsafe.Platform

private[executor] object RecordCopy {

  /**
   * Below this length a call of the JVM's copy takes longer than this loop. Most records are
   * shorter.
   */
  private val ShortBytes = 128

  def apply(from: AnyRef, start: Long, to: AnyRef, toOffset: Long, length: Int): Unit =
    if (length > ShortBytes || !Platform.unaligned()) {
      Platform.copyMemory(from, start, to, toOffset, length)
    } else {
      var done = 0
      while (done <= length - 8) {
        Platform.putLong(to, toOffset + done, Platform.getLong(from, start + done))
        done += 8
      }
      if (done <= length - 4) {
        Platform.putInt(to, toOffset + done, Platform.getInt(from, start + done))
        done += 4
      }
      while (done < length) {
        Platform.putByte(to, toOffset + done, Platform.getByte(from, start + done))
        done += 1
      }
    }
}
