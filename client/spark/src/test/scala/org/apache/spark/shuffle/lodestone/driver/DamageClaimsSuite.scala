// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.nio.ByteBuffer
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.concurrent.{ExecutionContext, Future}

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.BlockFormat.SparkStream
import org.apache.spark.shuffle.lodestone.plan.{DamagedSegment, Reason, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.{ShufflePlan, UnreadChunk}
import org.apache.spark.shuffle.lodestone.wire.{Crc32c, FetchSegments, LaidRun, LaidSegment}
import org.apache.spark.shuffle.lodestone.wire.{PartitionLayout, Refused, SegmentLayout}
import org.apache.spark.shuffle.lodestone.wire.{SegmentLayoutReply, SegmentRun, Status, WantedChunk}

/** Claims about damaged segments: the driver reads the segment itself. */
@Tag("seldom")
final class DamageClaimsSuite extends ClaimHarness {
  private val bytes = "rows of a map task".getBytes
  private val other = bytes.updated(3, 'X'.toByte)
  private val written =
    LaidSegment(1, 1001, whole, bytes.length, -1, Crc32c.of(ByteBuffer.wrap(bytes)))

  private def having(served: Array[Byte], laid: LaidSegment = written): Script = {
    case _: SegmentLayout => showing(laid)
    case asked: FetchSegments =>
      val SegmentRun(first, count) = asked.chunks.head.runs.head
      assertEquals((42, 7, 1), (asked.chunks.head.reduceId, first, count))
      Serve(ByteBuffer.wrap(served))
  }

  private def refusing(status: Status): Script = {
    case _: SegmentLayout => showing(written)
    case _: FetchSegments => Answer(Refused(status, 1, "scripted"))
  }

  private def at(plan: ShufflePlan, services: ScriptedService*): Seq[ServiceLocation] =
    plan.versions.head.toSeq.filter(it => services.exists(_.address.port == it.port))

  /** This service sent damaged bytes. */
  private def claims(plan: ShufflePlan, from: ScriptedService): Boolean = {
    val damaged = Some(DamagedSegment.of(42, written))
    claim(plan, at(plan, from), Reason.ChunkCorrupt, damaged = damaged)
  }

  private def assertIsLost(at: ScriptedService, isLost: Boolean): Unit = {
    haveExecutors(3)
    val plan = withOutputs(Seq(at, service(2)))
    assertEquals(isLost, claims(plan, at))
    if (isLost) assertForgotten(plan) else assertKept(plan)
  }

  @Test def `a segment is not lost that comes damaged to a reader and whole to the driver`()
      : Unit = assertIsLost(scripted(1)(having(bytes)), isLost = false)

  @Test def `a segment is lost that comes damaged to the driver too`(): Unit = {
    val one = scripted(1)(having(other))
    assertIsLost(one, isLost = true)
    assertEquals(2, one.seen(classOf[FetchSegments]), "as often as a reader asks")
  }

  @Test def `a segment is lost that came to its service as the reader has it`(): Unit = {
    val longer = bytes :+ 'X'.toByte
    val one = scripted(1)(having(bytes, written.copy(length = longer.length)))
    assertIsLost(one, isLost = true)
  }

  @Test def `a damaged segment is lost that its service does not show any more`(): Unit =
    assertIsLost(scripted(1)(having(bytes, written.copy(mapId = 1002))), isLost = true)

  @Test def `a segment is lost that the disk of its service cannot give the driver`(): Unit =
    assertIsLost(scripted(1)(refusing(Status.DiskFailed)), isLost = true)

  @Test def `a segment is not lost that its service has no time to send`(): Unit =
    assertIsLost(scripted(1)(refusing(Status.Overloaded)), isLost = false)

  @Test def `a segment is not lost whose bytes are late`(): Unit = {
    val one = scripted(1) {
      case _: SegmentLayout => showing(written)
      case _: FetchSegments => Silence
    }
    assertIsLost(one, isLost = false)
  }

  /** This service refused a chunk of two segments, of which the second one is unreadable. */
  private def claimsUnread(plan: ShufflePlan, from: ScriptedService): Boolean =
    claim(
      plan,
      at(plan, from),
      Reason.FetchDiskFailed,
      damaged = Some(DamagedSegment.of(42, written)),
      unread = Some(UnreadChunk(WantedChunk(42, Array(SegmentRun(7, 2))), 2L * bytes.length)))

  private def refusingChunks(text: String): Script = {
    case _: SegmentLayout => showing(written)
    case asked: FetchSegments if asked.chunks.head.runs.head.count > 1 => Refuse(text)
    case _: FetchSegments => Serve(ByteBuffer.wrap(bytes))
  }

  private def assertUnread(script: Script, isLost: Boolean): Unit = {
    haveExecutors(3)
    val one = scripted(1)(script)
    val plan = withOutputs(Seq(one, service(2)))
    assertEquals(isLost, claimsUnread(plan, one))
    if (isLost) assertForgotten(plan) else assertKept(plan)
  }

  @Test def `a chunk is lost that its service refuses to the driver too`(): Unit = {
    assertUnread(refusingChunks("[DISK_FAILED] the disk did not give it"), isLost = true)
    stopDriver()
    forgetAll()
    registerShuffle()
    assertUnread(refusingChunks("[ABORTED] it could not be written"), isLost = true)
    stopDriver()
    forgetAll()
    registerShuffle()
    assertUnread(refusingChunks("[INTERNAL] a partition is lost"), isLost = true)
    stopDriver()
    forgetAll()
    registerShuffle()
    assertUnread(refusingChunks("an older service has no codes"), isLost = true)
  }

  @Test def `a chunk is not lost that its service sends to the driver`(): Unit =
    assertUnread({ case _: FetchSegments => Serve(ByteBuffer.wrap(bytes)) }, isLost = false)

  @Test def `a chunk is not lost that its service is too busy to send`(): Unit =
    assertUnread(refusingChunks("[OVERLOADED] no descriptor is left"), isLost = false)

  @Test def `a chunk is not lost that another service has`(): Unit = {
    val one = scripted(1)(refusingChunks("[DISK_FAILED] the disk did not give it"))
    val plan = twoCopies(one, scripted(2)(having(bytes)))
    assertFalse(claimsUnread(plan, one))
    assertKept(plan)
  }

  private def twoCopies(one: ScriptedService, two: ScriptedService): ShufflePlan = {
    haveExecutors(3)
    withOutputs(Seq(one, two), "spark.lodestone.replicas" -> "2")
  }

  @Test def `a segment is not lost that another service has whole`(): Unit = {
    val one = scripted(1)(having(other))
    val plan = twoCopies(one, scripted(2)(having(bytes)))
    assertFalse(claims(plan, one))
    assertKept(plan)
  }

  @Test def `a segment is not lost with a service that has gone while another has it whole`()
      : Unit = {
    val one = scripted(1)(having(bytes))
    val plan = twoCopies(one, scripted(2)(having(bytes)))
    one.close()
    assertFalse(claims(plan, one))
    assertKept(plan)
  }

  @Test def `no service is used again that has a segment damaged`(): Unit = {
    haveExecutors(3)
    val all = (1 to 3).map(i => scripted(i.toLong)(having(other)))
    val plan = withOutputs(all, "spark.lodestone.replicas" -> "2")
    val holders = plan.servicesOf(0, plan.groupOf(0, 42)).toSet
    val one = all.find(_.address.port == holders.head.port).get
    assertTrue(claims(plan, one))
    assertForgotten(plan)
    assertEquals(plan.versions.head.toSet -- holders, planned().versions.head.toSet)
  }

  @Test def `of many damaged segments the driver reads few at a time`(): Unit = {
    haveExecutors(3)
    val large = written.copy(length = 20 << 20)
    val tasks = 10
    val (gate, laid) = (new CountDownLatch(1), new CountDownLatch(tasks))
    val one = scripted(1) {
      case asked: SegmentLayout =>
        laid.countDown()
        val run = LaidRun(7, Array(large))
        Answer(
          SegmentLayoutReply(
            1,
            SparkStream.name,
            Array(PartitionLayout(asked.reduceIds.head, Status.Ok, Array(run)))))
      case _: FetchSegments => AnswerAfter(gate, Refused(Status.Overloaded, 1, "scripted"))
    }
    val plan = withOutputs(Seq(one, service(2)), "spark.lodestone.request.timeout" -> "10s")
    val claims = (0 until tasks).map { reduceId =>
      Future(claim(
        plan,
        at(plan, one),
        Reason.ChunkCorrupt,
        reduceId = reduceId,
        damaged = Some(DamagedSegment.of(reduceId, large))))(ExecutionContext.global)
    }
    assertTrue(laid.await(20, TimeUnit.SECONDS), "not all tasks were heard")
    one.next(classOf[FetchSegments])
    // The driver handles an event after the answers.
    planned()
    assertEquals(1, one.seen(classOf[FetchSegments]))
    gate.countDown()
    assertEquals(Seq.fill(tasks)(false), claims.map(await(_)))
    assertKept(plan)
  }
}
