// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.CountDownLatch

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.{MapOutputTrackerMaster, SparkEnv}
import org.apache.spark.network.shuffle.protocol.RemoveShuffleMerge
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.{Distrust, DistrustMerged, OutputsSuspected}
import org.apache.spark.shuffle.lodestone.plan.{PlanAnswer, Reason, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.{Done, RegisterShuffle}
import org.apache.spark.storage.BlockManagerId

class ReadersSuite extends DriverHarness {
  private val id = ShuffleGeneration(4, 0)
  private val longWait = "spark.lodestone.push.timeout" -> "10min"
  private val shortWait = "spark.lodestone.push.timeout" -> "100ms"

  private def merged(answer: PlanAnswer): ShufflePlan = answer match {
    case plan: ShufflePlan => plan
    case other => throw new AssertionError(s"not merged: $other")
  }

  @Test def `when all pushes are over a reader gets the plan at once`(): Unit = {
    driver(Seq(service(1)), longWait).registered(4, numMaps = 3, numPartitions = 20)
    val plan = planOf(id)
    (0 until 3).foreach(pushed(id, _))
    assertEquals(plan.services.toSeq, merged(placesOf(id)).services.toSeq)
  }

  @Test def `readers wait for the missing report and all get the same answer`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, 3, 20)
    planOf(id)
    pushed(id, 0)
    pushed(id, 1)
    pushed(id, 1)
    val asks = (1 to 10).map(_ => askReadPlan(id))
    planOf(id) // everything before it has been seen by the driver
    assertTrue(asks.forall(!_.isCompleted), "two attempts of one map were taken for two maps")
    pushed(id, 2)
    val answers = asks.map(ask => merged(await(ask)).services.toSeq)
    assertEquals(1, answers.distinct.size)
  }

  @Test def `when a report stays away the wait has an end`(): Unit = {
    driver(Seq(service(1)), shortWait).registered(4, 3, 20)
    planOf(id)
    pushed(id, 0)
    assertEquals(1, merged(placesOf(id)).services.length)
    (1 until 3).foreach(pushed(id, _))
    assertEquals(1, merged(placesOf(id)).services.length)
    assertEquals(2L, reasonCount(Reason.PushNotAwaited), "maps that were not waited for")
  }

  @Test def `pushes that come after readers stopped waiting are still read by later readers`()
      : Unit = {
    val one = service(1)
    driver(Seq(one), shortWait).registered(4, 2, 20)
    val plan = planOf(id)
    assertEquals(plan.services.toSeq, merged(placesOf(id)).services.toSeq)
    assertEquals(2L, reasonCount(Reason.PushNotAwaited))
    (0 until 2).foreach(pushed(id, _))
    assertEquals(plan.services.toSeq, merged(placesOf(id)).services.toSeq)
    assertEquals(plan.services.toSeq, planOf(id).services.toSeq, "map tasks push no more")
    assertEquals(0, one.count(classOf[RemoveShuffleMerge]), "the service has dropped it")
  }

  @Test def `a shuffle of which nothing was pushed is plain Spark at once`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, 2, 20)
    planOf(id)
    pushed(id, 0, blocks = 0)
    pushed(id, 1, blocks = 0)
    assertEquals(noPlan(Reason.NothingPushed), placesOf(id))
    assertEquals(4, one.next(classOf[RemoveShuffleMerge]).shuffleId)
  }

  @Test def `a reader of a shuffle without a plan does not wait`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, 2, 20)
    assertEquals(noPlan(Reason.NothingPushed), placesOf(id))
    assertEquals(noPlan(Reason.UnknownShuffle), placesOf(ShuffleGeneration(99, 0)))
  }

  @Test def `a plan that comes too late for the readers is given up`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(7) { case _: RegisterShuffle => AnswerAfter(gate, Done(7)) }
    driver(Seq(slow), shortWait).registered(4, 2, 20)
    val plan = askPlan(id)
    slow.next(classOf[RegisterShuffle])
    assertEquals(noPlan(Reason.PushTooLate), placesOf(id))
    gate.countDown()
    assertEquals(noPlan(Reason.PushTooLate), await(plan))
    slow.next(classOf[RemoveShuffleMerge])
    assertEquals(noPlan(Reason.PushTooLate), placesOf(id))
  }

  @Test def `merged data that proved wrong is not read again`(): Unit = {
    val one = service(1)
    driver(Seq(one)).registered(4, 1, 20)
    planOf(id)
    pushed(id, 0)
    val read = merged(placesOf(id))
    assertTrue(await(ask[Boolean](DistrustMerged(id, 13, Distrust(Reason.ChunkBroken, 7)))))
    assertTrue(await(ask[Boolean](DistrustMerged(
      id,
      14,
      Distrust(Reason.RecordsMismatch, 8)))))
    // Readers still get the services that know the numbers of records, and check the originals.
    val doubted = merged(placesOf(id))
    assertEquals(Some(Distrust(Reason.ChunkBroken, 7)), doubted.distrusted)
    assertEquals(read.services.toSeq, doubted.services.toSeq)
    val unknown =
      DistrustMerged(ShuffleGeneration(4, 1), 13, Distrust(Reason.ChunkBroken, 9))
    assertFalse(await(ask[Boolean](unknown)))
  }

  /** A fetch failure makes Spark forget those of one executor only, and a stage has few of them. */
  @Test def `suspected outputs of all executors are forgotten at once`(): Unit = {
    val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    tracker.registerShuffle(4, 6, 20)
    try {
      driver(Seq(service(1))).registered(4, 6, 20)
      (0 until 6).foreach { map =>
        val at = BlockManagerId(s"executor-$map", "127.0.0.1", 1000 + map)
        tracker.registerMapOutput(4, map, MapStatus(at, Array.fill(20)(1L), 100L + map))
      }
      assertTrue(await(ask[Boolean](OutputsSuspected(id, 105))))
      assertEquals(
        Seq(5),
        tracker.shuffleStatuses(4).mapStatuses.filter(_ != null).map(_.mapId - 100).toSeq)
      assertFalse(await(ask[Boolean](OutputsSuspected(ShuffleGeneration(4, 1), 200))))
      assertEquals(1, tracker.getNumAvailableOutputs(4))
    } finally {
      tracker.unregisterShuffle(4)
    }
  }

  @Test def `a reader that waits for a removed shuffle gets an answer`(): Unit = {
    val one = service(1)
    val coordinator = driver(Seq(one), longWait)
    coordinator.registered(4, 2, 20)
    planOf(id)
    val waiting = askReadPlan(id)
    planOf(id)
    coordinator.removed(4)
    assertEquals(noPlan(Reason.UnknownShuffle), await(waiting))
  }

  @Test def `a reader that waits for an old generation gets an answer`(): Unit = {
    val again = ShuffleGeneration(4, 1)
    driver(Seq(service(1)), longWait).registered(4, 2, 20)
    planOf(id)
    val waiting = askReadPlan(id)
    planOf(id)
    planOf(again)
    assertEquals(noPlan(Reason.PushStale), await(waiting))
    val reader = askReadPlan(again)
    pushed(id, 0)
    pushed(id, 1)
    planOf(again)
    assertFalse(reader.isCompleted, "reports of the old generation ended the new one's wait")
    (0 until 2).foreach(pushed(again, _))
    assertEquals(1, merged(await(reader)).generation)
  }
}
