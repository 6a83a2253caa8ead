// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.{AfterEach, BeforeEach}
import org.junit.jupiter.api.Assertions.assertEquals

import org.apache.spark.{MapOutputTrackerMaster, SparkEnv}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.BlockFormat.SparkStream
import org.apache.spark.shuffle.lodestone.plan.{DamagedSegment, GetPlan, LostAt, MissingBlock}
import org.apache.spark.shuffle.lodestone.plan.{OutputsLost, PlanAnswer, Reason, RemoteOutput}
import org.apache.spark.shuffle.lodestone.plan.RemotePart
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShufflePlan, UnreadChunk}
import org.apache.spark.shuffle.lodestone.wire.{BlockSequence, LaidRun, LaidSegment}
import org.apache.spark.shuffle.lodestone.wire.{PartitionLayout, SegmentLayoutReply, Status}

/** A remote shuffle that reduce tasks report as unreadable. */
private[driver] abstract class ClaimHarness extends DriverHarness {
  protected val shuffleId = 7

  /** The driver of the outputs. */
  protected var coordinator: DriverCoordinator = _

  /** The id of a task that has ended. */
  protected val NoTask = -1L
  protected def tracker: MapOutputTrackerMaster =
    SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
  protected def haveExecutors(count: Int): Unit = haveExecutorsOn(Seq.fill(count)("127.0.0.1"): _*)

  @BeforeEach def registerShuffle(): Unit = tracker.registerShuffle(shuffleId, 2, 100)

  @AfterEach def forgetAll(): Unit = {
    tracker.unregisterShuffle(shuffleId)
    forgetExecutors()
  }

  /** Two maps, each with all partitions at all services. */
  protected def withOutputs(
      services: Seq[ScriptedService],
      extra: (String, String)*): ShufflePlan = {
    val settings = Seq(
      "spark.lodestone.mode" -> "remote",
      "spark.lodestone.request.timeout" -> "1s") ++ extra
    coordinator = driver(services, settings: _*)
    coordinator.registered(shuffleId, 2, 100)
    val location = RemoteOutput(0, Seq(RemotePart(0, Nil))).location(shuffleId)
    val plan = planned()
    (0 to 1).foreach { i =>
      val status = MapStatus(location, Array.fill(100)(1L), 1000L + i)
      tracker.registerMapOutput(shuffleId, i, status)
    }
    plan
  }

  protected def planned(): ShufflePlan =
    await(ask[PlanAnswer](GetPlan(shuffleId, 0))).asInstanceOf[ShufflePlan]

  protected def claim(
      plan: ShufflePlan,
      services: Seq[ServiceLocation],
      why: Reason,
      executorId: String = "reader-1",
      taskId: Long = NoTask,
      reduceId: Int = 42,
      missing: Option[MissingBlock] = None,
      damaged: Option[DamagedSegment] = None,
      unread: Option[UnreadChunk] = None): Boolean = {
    val claim = OutputsLost(
      shuffleId,
      plan.generation,
      LostAt(services, why, missing, damaged, unread),
      executorId,
      taskId,
      reduceId)
    await(ask[Boolean](claim))
  }

  protected def assertForgotten(plan: ShufflePlan): Unit = {
    assertEquals(0, tracker.getNumAvailableOutputs(shuffleId))
    assertEquals(plan.generation + 1, planned().generation)
  }

  protected def assertKept(plan: ShufflePlan): Unit = {
    assertEquals(2, tracker.getNumAvailableOutputs(shuffleId))
    assertEquals((plan.generation, plan.newest), (planned().generation, planned().newest))
  }

  protected val whole: Int = BlockSequence.last(BlockSequence(0))

  protected def showing(segment: LaidSegment): Answer = {
    val partition = PartitionLayout(42, Status.Ok, Array(LaidRun(7, Array(segment))))
    Answer(SegmentLayoutReply(1, SparkStream.name, Array(partition)))
  }
}
