// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.LinkedBlockingQueue

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.{LostAt, MissingBlock, OutputsLost, Reason}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.{BlockSequence, LaidSegment, MapRange, Refused}
import org.apache.spark.shuffle.lodestone.wire.{SegmentLayout, Status}

/** Claims of readers that cannot read a shuffle. */
@Tag("seldom")
final class LossClaimsSuite extends ClaimHarness {
  @Test def `outputs stay that one reader cannot reach and the driver can`(): Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(service(1), service(2)))
    val at = Seq(plan.versions.head.head)
    Seq(
      Reason.LayoutFailed,
      Reason.ChunkFetchFailed,
      Reason.FetchTimedOut,
      Reason.FetchSuspect,
      Reason.FetchOverloaded).foreach(why => assertFalse(claim(plan, at, why), why.code))
    assertKept(plan)
    assertEquals(5, reasonCount(Reason.ReaderCutOff))
    assertEquals(0, reasonCount(Reason.LayoutFailed))
  }

  @Test def `a reader of a barrier stage is believed at once`(): Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(service(1), service(2)))
    val at = Seq(plan.versions.head.head)
    val claim = OutputsLost(
      shuffleId,
      plan.generation,
      LostAt(at, Reason.ChunkFetchFailed),
      "reader-1",
      NoTask,
      reduceId = 42,
      isOfBarrier = true)
    assertTrue(await(ask[Boolean](claim)))
    assertForgotten(plan)
    assertFalse(planned().versions.head.contains(at.head))
  }

  @Test def `outputs are lost with a service that the driver cannot reach either`(): Unit = {
    haveExecutors(3)
    val gone = service(1)
    val plan = withOutputs(Seq(gone, service(2)))
    gone.close()
    val at = plan.versions.head.filter(_.port == gone.address.port).toSeq
    assertTrue(claim(plan, at, Reason.LayoutFailed))
    assertForgotten(plan)
    assertFalse(planned().versions.head.exists(_.port == gone.address.port))
  }

  @Test def `outputs are lost with a service that is silent to the driver too`(): Unit = {
    haveExecutors(3)
    val silent = scripted(1) { case _: SegmentLayout => Silence }
    val plan = withOutputs(Seq(silent, service(2)))
    val at = plan.versions.head.filter(_.port == silent.address.port).toSeq
    assertTrue(claim(plan, at, Reason.FetchTimedOut))
    assertForgotten(plan)
  }

  @Test def `outputs are lost with a service that does not know them any more`(): Unit =
    Seq(Status.StaleIncarnation, Status.UnknownShuffle, Status.UnknownApplication).foreach { why =>
      haveExecutors(3)
      val restarted = scripted(1) { case _: SegmentLayout => Answer(Refused(why, 2, "scripted")) }
      val plan = withOutputs(Seq(restarted, service(2)))
      val at = plan.versions.head.filter(_.port == restarted.address.port).toSeq
      assertTrue(claim(plan, at, Reason.FetchRestarted), why.toString)
      assertForgotten(plan)
      stopDriver()
      forgetAll()
      registerShuffle()
    }

  @Test def `a service that is busy for the driver too keeps its outputs`(): Unit = {
    haveExecutors(3)
    val busy = scripted(1) { case _: SegmentLayout =>
      Answer(Refused(Status.Overloaded, 1, "scripted"))
    }
    val plan = withOutputs(Seq(busy))
    assertFalse(claim(plan, plan.versions.head.toSeq, Reason.FetchOverloaded))
    assertKept(plan)
  }

  private def showing(mapId: Long, sequence: Int = whole): Script = { case asked: SegmentLayout =>
    showing(LaidSegment(asked.maps.start, mapId, sequence, 1, -1, 0))
  }

  @Test def `outputs are lost of which a service that is well does not show one block`(): Unit = {
    haveExecutors(3)
    // It shows another attempt of that map.
    val forgetful = scripted(1)(showing(mapId = 999))
    val plan = withOutputs(Seq(forgetful, service(2)))
    val at = plan.versions.head.filter(_.port == forgetful.address.port).toSeq
    val missing = Some(MissingBlock(1, 1001, 42))
    assertTrue(claim(plan, at, Reason.OutputLost, missing = missing))
    assertForgotten(plan)
  }

  @Test def `a block is not lost that the service shows to the driver`(): Unit = {
    haveExecutors(3)
    val one = scripted(1)(showing(mapId = 1001))
    val plan = withOutputs(Seq(one))
    val missing = Some(MissingBlock(1, 1001, 42))
    assertFalse(claim(plan, plan.versions.head.toSeq, Reason.OutputLost, missing = missing))
    val asked = one.next(classOf[SegmentLayout])
    assertEquals((MapRange(1, 2), Seq(42)), (asked.maps, asked.reduceIds.toSeq))
    assertKept(plan)
  }

  @Test def `a block is lost of which services show a part only`(): Unit = {
    haveExecutors(3)
    val partly = scripted(1)(showing(mapId = 1001, BlockSequence(0)))
    val plan = withOutputs(Seq(partly, service(2)))
    val missing = Some(MissingBlock(1, 1001, 42))
    val at = plan.versions.head.filter(_.port == partly.address.port).toSeq
    assertTrue(claim(plan, at, Reason.OutputLost, missing = missing))
    assertForgotten(plan)
  }

  @Test def `data that is wrong is made again however well its service is`(): Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(service(1), service(2)))
    assertTrue(claim(plan, plan.versions.head.take(1).toSeq, Reason.ChunkCorrupt))
    assertForgotten(plan)
  }

  @Test def `outputs stay whose layout a disk refused to one reader, and not to the driver`()
      : Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(service(1), service(2)))
    assertFalse(claim(plan, plan.versions.head.take(1).toSeq, Reason.FetchDiskFailed))
    assertKept(plan)
  }

  @Test def `outputs are lost whose layout a disk refuses to the driver too`(): Unit = {
    haveExecutors(3)
    val broken = scripted(1) { case _: SegmentLayout =>
      Answer(Refused(Status.DiskFailed, 1, "scripted"))
    }
    val plan = withOutputs(Seq(broken, service(2)))
    val at = plan.versions.head.filter(_.port == broken.address.port).toSeq
    assertTrue(claim(plan, at, Reason.FetchDiskFailed))
    assertForgotten(plan)
  }

  private val wrongRecords = Seq(Reason.RecordsMismatch, Reason.ChunkBroken)

  /** For a partition whose bytes arrived as they were pushed. */
  private def findsWrong(plan: ShufflePlan, why: Reason, executorId: String, reduceId: Int = 42) =
    claim(plan, Nil, why, executorId, reduceId = reduceId)

  private def withWrongRecords(executors: Int)(test: (ShufflePlan, Reason) => Unit): Unit =
    wrongRecords.foreach { why =>
      haveExecutors(executors)
      test(withOutputs(Seq(service(1), service(2))), why)
      stopDriver()
      forgetAll()
      registerShuffle()
    }

  @Test def `an executor that finds wrong records where others find right ones is not believed`()
      : Unit = withWrongRecords(executors = 3) { (plan, why) =>
    (1 to 20).foreach { reduceId =>
      assertFalse(findsWrong(plan, why, "reader-1", reduceId), s"${why.code}, $reduceId")
    }
    assertKept(plan)
    assertEquals(20, reasonCount(Reason.ReaderCutOff))
  }

  @Test def `records that two executors find wrong are written again`(): Unit =
    withWrongRecords(executors = 3) { (plan, why) =>
      assertFalse(findsWrong(plan, why, "reader-1"), why.code)
      assertTrue(findsWrong(plan, why, "reader-2"), why.code)
      assertForgotten(plan)
    }

  @Test def `records that one executor finds wrong time and again are written again`(): Unit =
    withWrongRecords(executors = 3) { (plan, why) =>
      (1 to 2).foreach(_ => assertFalse(findsWrong(plan, why, "reader-1"), why.code))
      assertTrue(findsWrong(plan, why, "reader-1"), why.code)
      assertForgotten(plan)
    }

  @Test def `records that the only executor finds wrong are written again at once`(): Unit =
    withWrongRecords(executors = 0) { (plan, why) =>
      assertTrue(findsWrong(plan, why, "reader-1"), why.code)
      assertForgotten(plan)
    }

  @Test def `a service that most executors cannot reach is left in the end`(): Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(service(1), service(2)))
    val at = plan.versions.head.head
    assertFalse(claim(plan, Seq(at), Reason.LayoutFailed, "reader-1"))
    assertFalse(claim(plan, Seq(at), Reason.LayoutFailed, "reader-1"))
    assertFalse(claim(plan, Seq(at), Reason.LayoutFailed, "reader-2"))
    assertTrue(claim(plan, Seq(at), Reason.LayoutFailed, "reader-3"))
    assertForgotten(plan)
    assertFalse(planned().versions.head.exists(_.port == at.port))
  }

  @Test def `a lost replica costs nothing while the other one is whole`(): Unit = {
    haveExecutors(3)
    val gone = service(1)
    val services = Seq(gone, service(2), service(3))
    val plan = withOutputs(services, "spark.lodestone.replicas" -> "2")
    gone.close()
    val (lost, others) = plan.versions.head.toSeq.partition(_.port == gone.address.port)
    assertFalse(claim(plan, lost ++ others.take(1), Reason.LayoutFailed))
    assertEquals(2, tracker.getNumAvailableOutputs(shuffleId))
  }

  @Test def `all tasks of an executor that complain at the same time wait together`(): Unit = {
    haveExecutors(3)
    val one = service(1)
    val plan = withOutputs(Seq(one))
    val at = plan.versions.head.toSeq
    val claims = (1 to 200).map { _ =>
      ask[Boolean](
        OutputsLost(
          shuffleId,
          plan.generation,
          LostAt(at, Reason.LayoutFailed),
          "reader-1",
          NoTask,
          42))
    }
    // More complaints in a row than an executor may have.
    claims.foreach(answer => assertFalse(await(answer)))
    assertKept(plan)
  }

  @Test def `a task in trouble of its own is killed, and does not fail whatever it throws then`()
      : Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(service(1), service(2)))
    val job = spark
      .parallelize(Seq(1), 1)
      .map { row =>
        val context = TaskContext.get()
        if (context.attemptNumber() == 0) {
          LossClaimsSuite.began.put(context.taskAttemptId())
          while (!context.isInterrupted()) Thread.`yield`()
          // Like tasks that save rows. In this master the first failure of a task ends the job.
          throw new IllegalStateException("scripted: the task failed while it wrote rows")
        }
        row
      }
      .countAsync()
    val task = LossClaimsSuite.began.take()
    val at = plan.versions.head.take(1).toSeq
    assertFalse(claim(plan, at, Reason.LayoutFailed, taskId = task))
    assertEquals(1L, await(job))
  }

  @Test def `an executor that complains for many rounds and minutes is believed in the end`()
      : Unit = {
    haveExecutors(3)
    // Half of it is the longest pause.
    val settings = "spark.lodestone.request.timeout" -> "300ms"
    val plan = withOutputs(Seq(service(1), service(2)), settings)
    def complains(): Boolean =
      claim(plan, plan.versions.head.take(1).toSeq, Reason.LayoutFailed)
    // Even if its rounds are short, another executor has minutes to take the task.
    (1 to 62).foreach(round => assertFalse(complains(), s"round $round"))
    assertKept(plan)
    pass(minutes = 6)
    assertTrue(complains(), "it goes on for ever")
    assertForgotten(plan)
  }

  @Test def `an executor is not believed whose tasks others take`(): Unit = {
    haveExecutors(3)
    val settings = "spark.lodestone.request.timeout" -> "300ms"
    val plan = withOutputs(Seq(service(1), service(2)), settings)
    def complains(reduceId: Int): Boolean =
      claim(plan, plan.versions.head.take(1).toSeq, Reason.LayoutFailed, reduceId = reduceId)
    (1 to 62).foreach(reduceId => assertFalse(complains(reduceId), s"partition $reduceId"))
    pass(minutes = 6)
    assertFalse(complains(reduceId = 1))
    assertKept(plan)
  }

  @Test def `an executor is not believed because minutes have passed`(): Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(service(1), service(2)))
    def complains(): Boolean =
      claim(plan, plan.versions.head.take(1).toSeq, Reason.LayoutFailed)
    assertFalse(complains())
    // It may have been busy with another shuffle.
    pass(minutes = 6)
    assertFalse(complains())
    assertKept(plan)
  }
}

object LossClaimsSuite {

  /** Tasks that wait to be killed. */
  val began = new LinkedBlockingQueue[Long]()
}
