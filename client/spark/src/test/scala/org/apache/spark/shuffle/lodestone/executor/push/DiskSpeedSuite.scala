// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

class DiskSpeedSuite {
  import DiskSpeed._

  /** The answers to six questions, and how often the disk was measured for them. */
  private def asked(measurements: Long*): (Seq[Long], Int) = {
    val rest = measurements.iterator
    val speed = new DiskSpeed(() => rest.next())
    val said = Seq.fill(6)(speed.readMicros())
    (said, measurements.size - rest.size)
  }

  @Test def `a fast disk is measured once`(): Unit =
    assertEquals((Seq.fill(6)(70L), 1), asked(70, 5000))

  @Test def `a disk that was busy at first is not taken for slow for good`(): Unit =
    assertEquals((Seq(5000L, 4000L, 90L, 90L, 90L, 90L), 3), asked(5000, 4000, 90, 80))

  @Test def `a slow disk is measured a few times`(): Unit =
    assertEquals(
      (Seq(9000L, 8000L, 8000L, 7000L, 7000L, 7000L), Measurements),
      asked(9000, 8000, 12000, 7000, 6000))

  @Test def `a disk that cannot be measured is asked once`(): Unit =
    assertEquals((Seq.fill(6)(DiskProbe.Unknown), 1), asked(DiskProbe.Unknown, 70))

  @Test def `a measurement that fails harms nobody`(): Unit = {
    val speed = new DiskSpeed(() => throw new IllegalStateException("the executor is stopping"))
    assertEquals(DiskProbe.Unknown, speed.readMicros())
    val without = new DiskSpeed(() => throw new NoClassDefFoundError("of direct reads"))
    assertEquals(DiskProbe.Unknown, without.readMicros())
  }
}
