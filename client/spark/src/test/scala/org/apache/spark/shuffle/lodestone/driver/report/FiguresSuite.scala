// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import java.util.Locale

import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.plan.{MapPushed, PushCounts, ShuffleGeneration}

class FiguresSuite {
  @Test def `the log has the same figures in every country`(): Unit = {
    val before = Locale.getDefault
    Locale.setDefault(Locale.GERMANY)
    try {
      val report = new DriverReport
      report.registered(3, numMaps = 2, numPartitions = 20)
      report.pushed(MapPushed(ShuffleGeneration(3, 0), 0, 1, PushCounts(1234, 5678, 1, Map.empty)))
      assertTrue(report.farewell.contains("1,234 blocks (5,678 bytes) pushed"), report.farewell)
    } finally Locale.setDefault(before)
  }
}
