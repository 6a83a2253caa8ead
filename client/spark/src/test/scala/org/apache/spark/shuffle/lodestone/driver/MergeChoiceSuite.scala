// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.plans.MergeChoice
import org.apache.spark.shuffle.lodestone.driver.plans.MergeChoice.{EvenBlockBytes, Leave, Merge}
import org.apache.spark.shuffle.lodestone.plan.{MapSample, Reason}

class MergeChoiceSuite {
  private val Mib = 1024L * 1024
  private val Solid = 150L
  private val Turning = 7000L

  private def choice(mode: String) =
    new MergeChoice(LodestoneConf(new SparkConf(false).set("spark.lodestone.mode", mode)))

  private val auto = choice("auto")

  @Test def `a shuffle that cannot have many blocks is left before it begins`(): Unit = {
    val auto = choice("auto")
    auto(100, MapSample(1, 100, 100 * 1024, Solid))
    assertEquals(Some(Reason.FewBlocks), auto.obstacle(numMaps = 10, numPartitions = 999))
    assertEquals(None, auto.obstacle(numMaps = 10, numPartitions = 1000))
    assertEquals(None, auto.obstacle(numMaps = 100000, numPartitions = 100000))
  }

  @Test def `a shuffle whose blocks are mostly empty is left when its first map shows it`(): Unit =
    assertEquals(Leave(Reason.FewBlocks), auto(100, MapSample(2, 20, 2000, Solid)))

  @Test def `tiny blocks are merged on any disk`(): Unit = {
    val tiny = MapSample(1, 1000, 1000 * 1024, Solid)
    assertEquals(Merge(4 * EvenBlockBytes), auto(1000, tiny))
    assertEquals(Merge(Mib), auto(1000, tiny.copy(diskReadMicros = Turning)))
    assertEquals(Merge(4 * EvenBlockBytes), auto(1000, tiny.copy(diskReadMicros = -1)))
  }

  @Test def `blocks of medium size are merged where a seek would cost more than they do`(): Unit = {
    val medium = MapSample(4, 4 * 200, 4 * 200 * 150000L, Solid)
    assertEquals(Leave(Reason.LargeBlocks), auto(64, medium))
    assertEquals(Merge(Mib), auto(64, medium.copy(diskReadMicros = Turning)))
  }

  @Test def `blocks above the size that is ever pushed are left on any disk`(): Unit = {
    val large = MapSample(1, 200, 200 * 2 * Mib, Turning)
    assertEquals(Leave(Reason.LargeBlocks), auto(64, large))
  }

  @Test def `the first shuffle shows whether few blocks are worth it for the next ones`(): Unit = {
    val auto = choice("auto")
    val few = MapSample(1, 30, 30 * 1024, Turning)
    assertEquals(None, auto.obstacle(numMaps = 10, numPartitions = 30))
    assertEquals(Merge(Mib), auto(10, few))
    assertEquals(None, auto.obstacle(numMaps = 10, numPartitions = 30))
    assertEquals(Some(Reason.FewBlocks), auto.obstacle(numMaps = 10, numPartitions = 19))
    assertEquals(Leave(Reason.FewBlocks), auto(10, few.copy(blocks = 19)))
    assertEquals(Leave(Reason.FewBlocks), auto(10, few.copy(diskReadMicros = Solid)))
    assertEquals(Some(Reason.FewBlocks), auto.obstacle(numMaps = 10, numPartitions = 30))
  }

  @Test def `on a disk of which nothing is known few blocks are left`(): Unit = {
    val auto = choice("auto")
    assertEquals(Leave(Reason.FewBlocks), auto(10, MapSample(1, 30, 30 * 1024, -1)))
    assertEquals(None, auto.obstacle(numMaps = 10, numPartitions = 30))
  }

  @Test def `mode merge takes every shuffle`(): Unit = {
    val merge = choice("merge")
    assertEquals(None, merge.obstacle(2, 2))
    assertEquals(Merge(Mib), merge(2, MapSample(1, 1, 1 << 30, Solid)))
  }
}
