// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.CountDownLatch

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark._
import org.apache.spark.executor.ExecutorMetrics
import org.apache.spark.scheduler._
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.driver.loss.MapTaskEnds
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, PlanAnswer, RemoteOutput, RemotePart}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.{AbortMap, Done}
import org.apache.spark.storage.BlockManagerId

/** Aborts of attempts that Spark's scheduler gives up, in all modes. */
class FailedAttemptsSuite extends DriverHarness {
  private val shuffleId = 7
  private val stageId = 70
  private val lost = ExecutorLostFailure("1", exitCausedByApp = false, Some("scripted"))
  private val killed = TaskKilled("another attempt succeeded")

  private def tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]

  private def withShuffle(services: ScriptedService*)(check: DriverCoordinator => Unit): Unit =
    withShuffleOf("remote", services)(check)

  /** A shuffle of four maps that has a plan, and the stage of which was submitted. */
  private def withShuffleOf(mode: String, services: Seq[ScriptedService])(
      check: DriverCoordinator => Unit): Unit = {
    val coordinator = driver(services, "spark.lodestone.mode" -> mode)
    coordinator.registered(shuffleId, 4, 100)
    tracker.registerShuffle(shuffleId, 4, 100)
    try {
      planned()
      submitted(stageId, shuffleId)
      check(coordinator)
    } finally {
      tracker.unregisterShuffle(shuffleId)
    }
  }

  private def planned(shuffleMergeId: Int = 0): ShufflePlan =
    await(ask[PlanAnswer](GetPlan(shuffleId, shuffleMergeId))).asInstanceOf[ShufflePlan]

  private def submitted(stageId: Int, shuffleId: Int): Unit = {
    val stage = new StageInfo(
      stageId = stageId,
      attemptId = 0,
      name = "scripted",
      numTasks = 4,
      rddInfos = Nil,
      parentIds = Nil,
      details = "",
      shuffleDepId = Some(shuffleId),
      resourceProfileId = 0)
    listeners.post(SparkListenerStageSubmitted(stage))
  }

  /** The index in the stage attempt differs from the partition. */
  private def ended(
      mapIndex: Int,
      mapId: Long,
      reason: TaskEndReason,
      stageId: Int = stageId): Unit = {
    val local = TaskLocality.PROCESS_LOCAL
    val task = new TaskInfo(mapId, mapIndex + 1, 0, mapIndex, 1L, "1", "host", local, false)
    task.markFinished(TaskState.FAILED, 2L)
    listeners.post(SparkListenerTaskEnd(
      stageId,
      0,
      "ShuffleMapTask",
      reason,
      task,
      new ExecutorMetrics,
      null))
  }

  private def atServices = RemoteOutput(0, Seq(RemotePart(0, Nil))).location(shuffleId)

  private def accepted(mapIndex: Int, mapId: Long, at: BlockManagerId = atServices): Unit = {
    tracker.registerMapOutput(shuffleId, mapIndex, MapStatus(at, Array.fill(100)(1L), mapId))
    ()
  }

  private def abortSent(service: ScriptedService): (Int, Int, Int, Long) = {
    val abort = service.next(classOf[AbortMap])
    (abort.shuffle.shuffleId, abort.shuffle.generation, abort.mapIndex, abort.mapId)
  }

  /** Ends an attempt that must be aborted. Its abort comes first, so no earlier attempt had one. */
  private def assertNoAbort(service: ScriptedService): Unit = {
    ended(3, 999, lost)
    assertEquals((shuffleId, 0, 3, 999L), abortSent(service))
    assertEquals(0, service.count(classOf[AbortMap]))
  }

  @Test def `every service drops the segments of an attempt whose executor was lost`(): Unit = {
    val services = Seq(service(1), service(2))
    withShuffle(services: _*) { _ =>
      ended(2, 100, lost)
      services.foreach(one => assertEquals((shuffleId, 0, 2, 100L), abortSent(one)))
    }
  }

  @Test def `every kind of failure aborts the attempt`(): Unit = {
    val one = service(1)
    withShuffle(one) { _ =>
      val ways = Seq(
        killed,
        new ExceptionFailure(new IllegalStateException("scripted"), Nil),
        FetchFailed(null, 3, 0L, 0, 0, "scripted"),
        TaskResultLost)
      ways.zipWithIndex.foreach { case (reason, i) =>
        ended(1, 100L + i, reason)
        assertEquals((shuffleId, 0, 1, 100L + i), abortSent(one), reason.toString)
      }
    }
  }

  @Test def `services drop the segments of a merged attempt that failed or was killed`(): Unit = {
    val services = Seq(service(1), service(2))
    withShuffleOf("merge", services) { _ =>
      Seq(killed, lost).zipWithIndex.foreach { case (reason, i) =>
        ended(2, 100L + i, reason)
        services.foreach(one => assertEquals((shuffleId, 0, 2, 100L + i), abortSent(one)))
      }
    }
  }

  @Test def `an attempt whose output an executor keeps for readers is never dropped`(): Unit = {
    val one = service(1)
    withShuffleOf("merge", Seq(one)) { _ =>
      accepted(2, 100, BlockManagerId("1", "host", 1))
      ended(2, 100, Resubmitted)
      // Spark does not do that.
      ended(2, 100, lost)
      assertNoAbort(one)
    }
  }

  @Test def `an attempt that is killed after another one was accepted leaves that one alone`()
      : Unit = {
    val one = service(1)
    withShuffle(one) { _ =>
      accepted(2, 100)
      ended(2, 101, killed)
      assertEquals((shuffleId, 0, 2, 101L), abortSent(one))
      assertNoAbort(one)
    }
  }

  @Test def `an attempt that Spark accepted is never dropped`(): Unit = {
    val one = service(1)
    withShuffle(one) { _ =>
      accepted(2, 100)
      // For accepted attempts, when their executor is lost later.
      ended(2, 100, Resubmitted)
      ended(1, 101, Resubmitted)
      ended(1, 102, Success)
      // Spark does not do that.
      ended(2, 100, lost)
      assertNoAbort(one)
    }
  }

  @Test def `an attempt is not dropped if the driver is not certain`(): Unit = {
    val one = service(1)
    withShuffle(one) { _ =>
      ended(2, 100, UnknownReason)
      ended(2, 101, lost, stageId = 71)
      // Tasks that were made without their partition look like this.
      ended(-1, 102, lost)
      ended(4, 103, lost)
      submitted(72, shuffleId = 8)
      ended(2, 104, lost, stageId = 72)
      assertNoAbort(one)
    }
  }

  @Test def `an attempt of an old generation is not aborted in the new one`(): Unit = {
    val one = service(1)
    withShuffle(one) { _ =>
      assertEquals(1, planned(shuffleMergeId = 1).generation)
      ended(2, 100, lost)
      assertEquals((shuffleId, 1, 2, 100L), abortSent(one))
    }
  }

  @Test def `attempts of a removed shuffle are not aborted`(): Unit = {
    val one = service(1)
    withShuffle(one) { coordinator =>
      coordinator.registered(8, 4, 100)
      tracker.registerShuffle(8, 4, 100)
      await(ask[PlanAnswer](GetPlan(8, 0)))
      submitted(80, shuffleId = 8)
      ended(0, 1, lost, stageId = 80)
      assertEquals((8, 0, 0, 1L), abortSent(one))
      tracker.unregisterShuffle(8)
      ended(0, 2, lost, stageId = 80)
      coordinator.removed(8)
      ended(0, 3, lost, stageId = 80)
      assertNoAbort(one)
    }
  }

  @Test def `a service gets one abort at a time and at most some thousand`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(1) { case _: AbortMap => AnswerAfter(gate, Done(1)) }
    withShuffle(slow) { _ =>
      ended(0, 0, lost)
      assertEquals((shuffleId, 0, 0, 0L), abortSent(slow))
      val many = 6000
      (1 to many).foreach { mapId =>
        ended(0, mapId.toLong, lost)
        // The bus drops events that do not fit.
        if (mapId % 1000 == 0) listeners.waitUntilEmpty()
      }
      planned()
      assertEquals(0, slow.count(classOf[AbortMap]))
      slow.answering(PartialFunction.empty)
      gate.countDown()
      (1 to 4000).foreach(mapId => assertEquals(mapId.toLong, abortSent(slow)._4))
      assertNoAbort(slow)
    }
  }

  @Test def `a service that does not answer does not delay the aborts at others for long`()
      : Unit = {
    val silent = scripted(1) { case _: AbortMap => HangUp }
    val other = service(2)
    withShuffle(silent, other) { _ =>
      (1 to 100).foreach(mapId => ended(0, mapId.toLong, lost))
      (1 to 100).foreach(mapId => assertEquals(mapId.toLong, abortSent(other)._4))
      assertEquals(2, silent.seen(classOf[AbortMap]), "once, and once more")
    }
  }

  @Test def `a driver that has stopped hears nothing more`(): Unit = {
    val one = service(1)
    withShuffle(one) { coordinator =>
      coordinator.stop()
      ended(2, 100, lost)
      listeners.waitUntilEmpty()
      assertEquals(0, one.count(classOf[AbortMap]))
      assertEquals(Nil, listeners.findListenersByClass[MapTaskEnds]())
    }
  }
}
