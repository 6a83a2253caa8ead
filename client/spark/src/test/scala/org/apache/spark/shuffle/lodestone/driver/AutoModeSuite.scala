// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.{MapSample, NoPlan, Reason, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.{Hello, HelloReply, RegisterShuffle}

/** A driver that decides for each shuffle, and its answers to executors. */
class AutoModeSuite extends DriverHarness {
  private val id = ShuffleGeneration(3, 0)
  private val large = MapSample(1, 100, 100 * 100000L, -1)
  private val small = MapSample(2, 200, 200 * 1000L, -1)
  private val leftForNow = NoPlan(Reason.LargeBlocks, forNow = true)

  /** A reader without an answer at once gets none before the test ends. */
  private def deciding(used: ScriptedService*): DriverCoordinator = driver(
    used,
    "spark.lodestone.mode" -> "auto",
    "spark.lodestone.push.timeout" -> "10min")

  @Test def `large blocks are left for now and merged once more maps show small ones`(): Unit = {
    val one = service(7)
    deciding(one).registered(3, numMaps = 100, numPartitions = 100)
    assertEquals(leftForNow, await(askPlan(id, large)))
    assertEquals(0, one.seen(classOf[RegisterShuffle]))
    val plan = await(askPlan(id, small)).asInstanceOf[ShufflePlan]
    assertEquals(Seq(one.address.toString), plan.services.toSeq.map(_.hostPort))
    assertEquals(32 * 1024L, plan.maxBlockBytes)
    assertEquals(
      plan.services.toSeq,
      await(askPlan(id, large)).asInstanceOf[ShufflePlan].services.toSeq)
  }

  @Test def `readers of a shuffle that was left hear why at once and later maps do too`(): Unit = {
    deciding(service(7)).registered(3, numMaps = 100, numPartitions = 100)
    assertEquals(leftForNow, await(askPlan(id, large)))
    assertEquals(noPlan(Reason.LargeBlocks), placesOf(id))
    assertEquals(noPlan(Reason.LargeBlocks), await(askPlan(id, small)))
    assertEquals(1L, reasonCount(Reason.LargeBlocks))
  }

  @Test def `a shuffle that is repeated is decided again`(): Unit = {
    deciding(service(7)).registered(3, numMaps = 100, numPartitions = 100)
    assertEquals(leftForNow, await(askPlan(id, large)))
    assertEquals(noPlan(Reason.LargeBlocks), placesOf(id))
    val repeated = id.copy(number = 1)
    assertEquals(100, await(askPlan(repeated, small)).asInstanceOf[ShufflePlan].numPartitions)
  }

  @Test def `services that are all short of disk space are spared`(): Unit = {
    val full = Healthy.copy(diskFree = 3L << 30)
    def strained(incarnation: Long) = scripted(incarnation) { case _: Hello =>
      Answer(HelloReply(1, "test", incarnation, full))
    }
    deciding(strained(1), strained(2)).registered(3, numMaps = 100, numPartitions = 100)
    assertEquals(noPlan(Reason.ServicesStrained), await(askPlan(id, small)))
    assertEquals(noPlan(Reason.ServicesStrained), placesOf(id))
  }
}
