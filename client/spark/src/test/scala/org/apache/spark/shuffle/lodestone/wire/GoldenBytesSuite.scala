// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import java.nio.ByteBuffer

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.GoldenVectors

/** The bytes that the daemon's tests read too. */
final class GoldenBytesSuite {
  private val codecs: Map[String, Codec[_ <: Message]] = Map(
    "Hello" -> RequestCodecs.hello,
    "HelloReply" -> HelloReply,
    "RenewLease" -> RequestCodecs.renewLease,
    "LeaseReply" -> LeaseReply,
    "RegisterShuffle" -> RequestCodecs.registerShuffle,
    "PushBatch" -> RequestCodecs.pushBatch,
    "PushBatchReply" -> PushBatchReply,
    "SegmentLayout" -> RequestCodecs.segmentLayout,
    "SegmentLayoutReply" -> SegmentLayoutReply,
    "FetchSegments" -> RequestCodecs.fetchSegments,
    "CommitMap" -> RequestCodecs.commitMap,
    "AbortMap" -> RequestCodecs.abortMap,
    "EndApplication" -> RequestCodecs.endApplication,
    "ReportApplication" -> RequestCodecs.reportApplication,
    "Done" -> Done,
    "Refused" -> Refused)

  private val vectors: Map[String, ByteBuffer] =
    GoldenVectors.read("extension-messages.txt").map { case (name, bytes) =>
      name -> ByteBuffer.wrap(bytes)
    }

  private val plain = ShuffleAddress(Application("app", -1), 0x0123456789abcdefL, 5, 0)

  private def assertGolden(name: String, message: Message): Unit =
    assertEquals(vectors(name), message.encode(), name)

  /** Between an operator's command line and a service: the plugin has no part in it. */
  private val ofOperators = Set("Drain", "Holdings", "ExplainApplication", "Explanation")

  @Test def everyVectorIsReadAndWrittenBackToTheSameBytes(): Unit = {
    val ours = vectors.filterNot { case (name, _) => ofOperators(name.takeWhile(_ != '.')) }
    ours.foreach { case (name, bytes) =>
      val codec = codecs(name.takeWhile(_ != '.'))
      assertEquals(bytes, codec.decode(bytes).encode(), name)
    }
    assertEquals(codecs.keySet, ours.keySet.map(_.takeWhile(_ != '.')))
  }

  @Test def theFieldsOfRequestsAreWhereTheProtocolPutsThem(): Unit = {
    assertGolden("Hello.plain", Hello(8, "lodestone-spark/0.1.0 spark/4.1.2"))
    assertGolden("RenewLease.plain", RenewLease(plain.app, plain.incarnation, 60000))
    assertGolden(
      "RegisterShuffle.plain",
      RegisterShuffle(plain, ShuffleMode.Merge, 1000, 200, "spark-stream"))
    val segments =
      Array(Segment(3, 5, 2, 0x9a71bb4c, sequence = 1), Segment(4, 1, -1, 0, sequence = 6))
    assertGolden("PushBatch.two-segments", PushBatch(plain, 7, 42, 100, isWhole = false, segments))
    assertGolden("SegmentLayout.all-maps", SegmentLayout(plain, MapRange.All, Array(0, 1, 199)))
    def chunk(reduceId: Int, runs: (Int, Int)*): WantedChunk =
      WantedChunk(reduceId, runs.map { case (first, count) => SegmentRun(first, count) }.toArray)
    val chunks = Array(chunk(3, (0, 7)), chunk(3, (7, 1), (9, 2)), chunk(9, (0, 1)))
    assertGolden("FetchSegments.three-chunks", FetchSegments(plain, chunks))
    assertGolden("CommitMap.plain", CommitMap(plain, 7, 42, Ledger(200, 0x0123456789abcdefL)))
    assertGolden("AbortMap.plain", AbortMap(plain, 7, 42))
    assertGolden("EndApplication.plain", EndApplication(plain.app))
    val report = "{\"totals\":{\"shuffles\":1}}"
    assertGolden("ReportApplication.plain", ReportApplication(plain.app, ended = true, report))
  }

  @Test def theFieldsOfAnswersAreWhereTheProtocolPutsThem(): Unit = {
    val load = Load(0, 1, 2, 3, 4, 5, 6)
    assertGolden("HelloReply.plain", HelloReply(8, "0.1.0", plain.incarnation, load, "eu-west-1a"))
    assertGolden("LeaseReply.plain", LeaseReply(7, 60000, load))
    val statuses = Array[Status](Status.Ok, Status.Duplicate, Status.Aborted)
    assertGolden("PushBatchReply.three-codes", PushBatchReply(7, isCommitted = false, statuses))
    assertGolden("Done.plain", Done(plain.incarnation))
    val detail = "shuffle 5 was never registered"
    assertGolden("Refused.plain", Refused(Status.UnknownShuffle, 7, detail))
    val segments = Array(LaidSegment(7, 42, 0, 5, 2, 0x9a71bb4c), LaidSegment(8, 43, 1, 1, -1, 0))
    val max = Int.MaxValue
    val last = LaidRun(9, Array(LaidSegment(max, Long.MaxValue, max, max, max, -1)))
    val known = PartitionLayout(3, Status.Ok, Array(LaidRun(0, segments), last))
    val unknown = PartitionLayout(4, Status.UnknownPartition, Array.empty)
    assertGolden(
      "SegmentLayoutReply.known-and-unknown",
      SegmentLayoutReply(7, "encoded-rows-1", Array(known, unknown)))
    assertTrue(load.serving)
  }
}
