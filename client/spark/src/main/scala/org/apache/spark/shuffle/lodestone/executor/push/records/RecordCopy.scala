// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import org.apache.spark.unsafe.Platform

private[records] object RecordCopy {

  /** Most records are shorter than what it takes to call the copy of the JVM for them. */
  private val ShortBytes = 128

  def apply(from: AnyRef, start: Long, to: AnyRef, place: Long, length: Int): Unit =
    if (length > ShortBytes || !Platform.unaligned()) {
      Platform.copyMemory(from, start, to, place, length)
    } else {
      var done = 0
      while (done <= length - 8) {
        Platform.putLong(to, place + done, Platform.getLong(from, start + done))
        done += 8
      }
      if (done <= length - 4) {
        Platform.putInt(to, place + done, Platform.getInt(from, start + done))
        done += 4
      }
      while (done < length) {
        Platform.putByte(to, place + done, Platform.getByte(from, start + done))
        done += 1
      }
    }
}
