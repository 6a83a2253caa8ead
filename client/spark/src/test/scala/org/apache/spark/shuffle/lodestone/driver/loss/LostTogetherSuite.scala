// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.driver.{ClaimHarness, ScriptedService}
import org.apache.spark.shuffle.lodestone.driver.ScriptedService.Answer
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.wire.{Refused, SegmentLayout, Status}

/** One service has several shuffles, and a reader reports one of them. */
private[driver] final class LostTogetherSuite extends ClaimHarness {
  private val others = Seq(17, 18)

  @BeforeEach def registerOthers(): Unit = others.foreach(tracker.registerShuffle(_, 2, 100))

  @AfterEach def forgetOthers(): Unit = others.foreach(tracker.unregisterShuffle(_))

  /** The plan of the shuffle that is reported. The outputs of the others are at the service too. */
  private def reported(
      at: ScriptedService,
      isRepeatable: Int => Boolean = _ => true): ShufflePlan = {
    haveExecutors(3)
    val plan = withOutputs(Seq(at))
    others.foreach { other =>
      coordinator.registered(other, 2, 100, isRepeatable = isRepeatable(other))
      await(ask[PlanAnswer](GetPlan(other, 0)))
      val location = RemoteOutput(0, Seq(RemotePart(0, Nil))).location(other)
      (0 to 1).foreach { i =>
        tracker.registerMapOutput(other, i, MapStatus(location, Array.fill(100)(1L), 1000L + i))
      }
    }
    plan
  }

  private def missing(shuffles: Int*): ScriptedService = scripted(1) {
    case asked: SegmentLayout if shuffles.contains(asked.shuffle.shuffleId) =>
      Answer(Refused(Status.StaleIncarnation, 2, "scripted"))
  }

  private def outputsOf(shuffleId: Int): Int = tracker.getNumAvailableOutputs(shuffleId)

  private def awaitForgotten(shuffleId: Int): Unit = {
    val deadline = System.nanoTime() + 20000000000L
    while (outputsOf(shuffleId) > 0) {
      assertTrue(System.nanoTime() < deadline, s"Spark still has outputs of shuffle $shuffleId")
    }
  }

  @Test def `all shuffles that a service lost are made again when a reader finds the first one`()
      : Unit = {
    val restarted = missing(shuffleId +: others: _*)
    val plan = reported(restarted)
    assertTrue(claim(plan, plan.versions.head.toSeq, Reason.FetchRestarted))
    assertEquals(0, outputsOf(shuffleId))
    others.foreach(awaitForgotten)
  }

  @Test def `a shuffle that the service still shows is not made again`(): Unit = {
    val partly = missing(shuffleId, others.last)
    val plan = reported(partly)
    assertTrue(claim(plan, plan.versions.head.toSeq, Reason.FetchRestarted))
    // The questions are sent together.
    awaitForgotten(others.last)
    val asked = Seq.fill(3)(partly.next(classOf[SegmentLayout]).shuffle.shuffleId)
    assertEquals((shuffleId +: others).toSet, asked.toSet)
    assertEquals(2, outputsOf(others.head))
  }

  @Test def `a shuffle whose maps may write other records stays until a reader misses it`()
      : Unit = {
    val restarted = missing(shuffleId +: others: _*)
    val plan = reported(restarted, isRepeatable = _ != others.head)
    assertTrue(claim(plan, plan.versions.head.toSeq, Reason.FetchRestarted))
    awaitForgotten(others.last)
    assertEquals(2, outputsOf(others.head))
  }
}
