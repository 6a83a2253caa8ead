// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.network.shuffle.protocol.RemoveShuffleMerge
import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.wire._

class MergeFinalizerSuite extends DriverHarness {
  private val id = ShuffleGeneration(4, 0)
  private val longWait = "spark.lodestone.finalize.timeout" -> "10min"
  private val shortWait = "spark.lodestone.finalize.timeout" -> "100ms"

  private def merged(answer: DriverMessage): MergePlan = answer match {
    case plan: MergePlan => plan
    case other => throw new AssertionError(s"not merged: $other")
  }

  @Test def `the last report finalizes before any reader asks`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, numMaps = 3, numPartitions = 20)
    val plan = planOf(id)
    (0 until 3).foreach(pushed(id, _))
    val sent = one.next(classOf[FinalizeMerge])
    assertEquals(ShuffleAddress(sent.shuffle.app, 1, 4, 0), sent.shuffle)
    assertEquals(plan.services.toSeq, merged(resultOf(id)).services.toSeq)
    assertEquals(0, one.count(classOf[FinalizeMerge]), "it was finalized twice")
  }

  @Test def `readers wait for the missing report and all get the same answer`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, 3, 20)
    planOf(id)
    pushed(id, 0)
    pushed(id, 1)
    pushed(id, 1)
    val asks = (1 to 10).map(_ => ask[DriverMessage](GetMergeResult(id)))
    planOf(id) // everything before it has been seen by the driver
    assertTrue(asks.forall(!_.isCompleted), "two attempts of one map were taken for two maps")
    assertEquals(0, one.count(classOf[FinalizeMerge]))
    pushed(id, 2)
    val answers = asks.map(ask => merged(await(ask)).services.toSeq)
    assertEquals(1, answers.distinct.size)
  }

  @Test def `when a report stays away the wait has an end`(): Unit = {
    val one = service(1)
    driver(Seq(one), shortWait).registered(4, 3, 20)
    planOf(id)
    pushed(id, 0)
    assertEquals(1, merged(resultOf(id)).services.length)
    one.next(classOf[FinalizeMerge])
    (1 until 3).foreach(pushed(id, _))
    assertEquals(1, merged(resultOf(id)).services.length)
    assertEquals(0, one.count(classOf[FinalizeMerge]), "late reports finalized again")
    assertEquals(2L, reasonCount(Reason.FinalizeEarly), "maps that were not waited for")
  }

  @Test def `a service that does not finalize leaves a hole and the rule for the others`(): Unit = {
    val services = Seq(
      service(1),
      scripted(2) { case _: FinalizeMerge => Silence },
      scripted(3) { case _: FinalizeMerge => Answer(Refused(Status.StaleIncarnation, 9, "new")) })
    driver(services, shortWait, "spark.lodestone.request.timeout" -> "400ms")
      .registered(4, 1, 24)
    val plan = planOf(id)
    pushed(id, 0)
    val result = merged(resultOf(id))
    val expected = plan.services.toSeq.map(s => if (s.incarnation == 1) s else null)
    assertEquals(expected, result.services.toSeq)
    assertEquals(3, result.services.length)
  }

  @Test def `a connection that breaks or a busy service costs a finalize one repetition`(): Unit = {
    val troubles = Seq[Reaction](HangUp, Answer(Refused(Status.Overloaded, 2, "busy")))
    val services = troubles.zipWithIndex.map { case (trouble, index) =>
      val asked = new AtomicInteger
      scripted(index + 1L) {
        case _: FinalizeMerge if asked.getAndIncrement() == 0 => trouble
      }
    }
    driver(services, longWait).registered(4, 1, 16)
    val plan = planOf(id)
    pushed(id, 0)
    assertEquals(plan.services.toSeq, merged(resultOf(id)).services.toSeq)
    assertEquals(Seq(2, 2), services.map(_.count(classOf[FinalizeMerge])))
  }

  @Test def `a finalize that fails again is not sent a third time`(): Unit = {
    val services = Seq[Reaction](HangUp, Answer(Refused(Status.Overloaded, 2, "busy"))).zipWithIndex
      .map { case (trouble, index) => scripted(index + 1L) { case _: FinalizeMerge => trouble } }
    driver(services, longWait).registered(4, 1, 16)
    planOf(id)
    pushed(id, 0)
    assertEquals(notMerged(Reason.NotFinalized), resultOf(id))
    assertEquals(Seq(2, 2), services.map(_.count(classOf[FinalizeMerge])))
  }

  @Test def `when no service finalizes everything is read from originals`(): Unit = {
    val one = scripted(1) { case _: FinalizeMerge => Answer(Refused(Status.UnknownShuffle, 1, "")) }
    driver(Seq(one)).registered(4, 1, 20)
    planOf(id)
    pushed(id, 0)
    assertEquals(notMerged(Reason.NotFinalized), resultOf(id))
  }

  @Test def `a shuffle of which nothing was pushed is plain Spark at once`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, 2, 20)
    planOf(id)
    pushed(id, 0, blocks = 0)
    pushed(id, 1, blocks = 0)
    assertEquals(notMerged(Reason.NothingPushed), resultOf(id))
    assertEquals(4, one.next(classOf[RemoveShuffleMerge]).shuffleId)
    assertEquals(0, one.count(classOf[FinalizeMerge]))
  }

  @Test def `a reader of a shuffle that nobody planned does not wait`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, 2, 20)
    assertEquals(notMerged(Reason.NothingPushed), resultOf(id))
    assertEquals(notMerged(Reason.UnknownShuffle), resultOf(ShuffleGeneration(99, 0)))
  }

  @Test def `a plan that comes too late for the readers is given up`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(7) { case _: RegisterShuffle => AnswerAfter(gate, Done(7)) }
    driver(Seq(slow), shortWait).registered(4, 2, 20)
    val plan = askPlan(id)
    slow.next(classOf[RegisterShuffle])
    assertEquals(notMerged(Reason.NotFinalized), resultOf(id))
    gate.countDown()
    assertEquals(notMerged(Reason.PushTooLate), await(plan))
    slow.next(classOf[RemoveShuffleMerge])
    assertEquals(notMerged(Reason.NotFinalized), resultOf(id))
  }

  @Test def `merged data that proved wrong is read by nobody any more`(): Unit = {
    val one = service(1)
    driver(Seq(one)).registered(4, 1, 20)
    planOf(id)
    pushed(id, 0)
    val read = merged(resultOf(id))
    assertTrue(await(ask[Boolean](DistrustMerged(id, 13, Reason.ChunkBroken.code))))
    assertTrue(await(ask[Boolean](DistrustMerged(id, 14, Reason.RecordsMismatch.code))))
    // Who has the numbers of records is still known: the originals are checked by them.
    val doubted = merged(resultOf(id))
    assertEquals(Some(Reason.ChunkBroken.code), doubted.distrusted)
    assertEquals(read.services.toSeq, doubted.services.toSeq)
    val unknown = DistrustMerged(ShuffleGeneration(4, 1), 13, Reason.ChunkBroken.code)
    assertFalse(await(ask[Boolean](unknown)))
  }

  @Test def `a service that has lost what it acknowledged is not read from`(): Unit = {
    def totals(segments: Long, lost: Long, checksum: Long) =
      Answer(FinalizeMergeReply(0, 5, segments, 99, lost, checksum))
    val services = Seq(
      scripted(1) { case _: FinalizeMerge => totals(segments = 2, lost = 0, checksum = 70) },
      scripted(2) { case _: FinalizeMerge => totals(segments = 1, lost = 0, checksum = 30) },
      scripted(3) {
        case _: FinalizeMerge | _: RetainAttempts => totals(segments = 2, lost = 0, checksum = 71)
      },
      scripted(4) { case _: FinalizeMerge => totals(segments = 1, lost = 1, checksum = 70) },
      scripted(5) { case _: FinalizeMerge | _: RetainAttempts =>
        totals(segments = 3, lost = 0, checksum = 99)
      })
    driver(services).registered(4, 2, 40)
    val plan = planOf(id)
    pushed(id, 0, acknowledged = (0 until 5).map(_ -> Ledger(1, 30)).toMap)
    pushed(id, 1, acknowledged = (0 until 5).map(_ -> Ledger(1, 40)).toMap)
    val result = merged(resultOf(id))
    // The second lost one, the third has another one, the fourth knows what it lost; the fifth has one too
    // many, also of the attempts that reported.
    val trusted = Set(1L, 4L)
    val expected = plan.services.toSeq.map(s => if (trusted(s.incarnation)) s else null)
    assertEquals(expected, result.services.toSeq)
    assertEquals(Set(Reason.LedgerMismatch.code), result.absent.values.toSet)
    assertEquals(3, result.absent.size)
    assertEquals(0, services(1).count(classOf[RetainAttempts]), "it has less")
  }

  @Test def `a lost answer costs the blocks of its map task at that service, and no others`()
      : Unit = {
    def totals(segments: Long, checksum: Long) =
      Answer(FinalizeMergeReply(0, 5, segments, 99, 0, checksum))
    // Map 1 got an answer to one of its two pushes to the first service, and both arrived.
    val services = Seq(
      scripted(1) {
        case _: FinalizeMerge => totals(segments = 3, checksum = 100)
        case _: RetainAttempts => totals(segments = 1, checksum = 30)
      },
      scripted(2) { case _: FinalizeMerge => totals(segments = 2, checksum = 70) })
    driver(services).registered(4, 2, 40)
    val plan = planOf(id)
    pushed(id, 0, acknowledged = Map(0 -> Ledger(1, 30), 1 -> Ledger(1, 30)))
    val unsure = plan.services.indexWhere(_.incarnation == 1)
    pushed(id, 1, acknowledged = Map(0 -> Ledger(1, 40), 1 -> Ledger(1, 40)), unsure = Set(unsure))
    assertEquals(plan.services.toSeq, merged(resultOf(id)).services.toSeq)
    val retained = services.head.next(classOf[RetainAttempts])
    assertEquals(Seq(1000L), retained.mapIds.toSeq)
    assertEquals(0, services(1).count(classOf[RetainAttempts]), "it has just what it acknowledged")
  }

  @Test def `what a map task that never reported had pushed is not read`(): Unit = {
    val one = scripted(1) {
      case _: FinalizeMerge => Answer(FinalizeMergeReply(0, 5, segments = 4, 99, 0, checksum = 5))
      case _: RetainAttempts => Answer(FinalizeMergeReply(0, 5, segments = 1, 33, 0, checksum = 30))
    }
    driver(Seq(one)).registered(4, 1, 40)
    val plan = planOf(id)
    pushed(id, 0, acknowledged = Map(0 -> Ledger(1, 30)))
    assertEquals(plan.services.toSeq, merged(resultOf(id)).services.toSeq)
    assertEquals(Seq(1000L), one.next(classOf[RetainAttempts]).mapIds.toSeq)
  }

  @Test def `a service that does not say what it shows of some attempts is not read from`()
      : Unit = {
    val one = scripted(1) {
      case _: FinalizeMerge => Answer(FinalizeMergeReply(0, 5, segments = 4, 99, 0, checksum = 5))
      case _: RetainAttempts => Answer(Refused(Status.Overloaded, 1, "busy"))
    }
    driver(Seq(one)).registered(4, 1, 40)
    planOf(id)
    pushed(id, 0, acknowledged = Map(0 -> Ledger(1, 30)))
    assertEquals(notMerged(Reason.NotFinalized), resultOf(id))
  }

  @Test def `who waits for a shuffle that is removed is answered`(): Unit = {
    val one = service(1)
    val coordinator = driver(Seq(one), longWait)
    coordinator.registered(4, 2, 20)
    planOf(id)
    val waiting = ask[DriverMessage](GetMergeResult(id))
    planOf(id)
    coordinator.removed(4)
    assertEquals(notMerged(Reason.UnknownShuffle), await(waiting))
  }

  @Test def `who waits for a generation that is run again is answered`(): Unit = {
    val one = service(1)
    driver(Seq(one), longWait).registered(4, 2, 20)
    planOf(id)
    val waiting = ask[DriverMessage](GetMergeResult(id))
    planOf(id)
    planOf(ShuffleGeneration(4, 1))
    assertEquals(notMerged(Reason.PushStale), await(waiting))
    pushed(id, 0)
    pushed(id, 1)
    planOf(ShuffleGeneration(4, 1))
    assertEquals(0, one.count(classOf[FinalizeMerge]), "reports of the old life finalized the new")
  }
}
