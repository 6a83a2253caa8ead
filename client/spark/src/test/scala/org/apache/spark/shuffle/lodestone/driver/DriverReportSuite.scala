// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.logging.log4j.Level
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.lodestone.{LodestoneReport, LogCapture}
import org.apache.spark.shuffle.lodestone.driver.report._
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, EncodedBytes, MapEncoded}
import org.apache.spark.shuffle.lodestone.plan.{MapPushed, MapSample, PushCounts, ReadCounts}
import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.plan.{ShufflePlan, TaskRead}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

@Tag("seldom")
class DriverReportSuite extends DriverHarness {
  private val id = ShuffleGeneration(8, 0)

  private def report(): JsonNode = new ObjectMapper().readTree(LodestoneReport.json())

  private def shuffles(report: JsonNode): Seq[JsonNode] = {
    val all = report.get("shuffles")
    (0 until all.size).map(all.get)
  }

  private def shuffle(shuffleId: Int): JsonNode =
    shuffles(report())
      .find(_.get("shuffleId").asInt == shuffleId)
      .getOrElse(throw new AssertionError(s"shuffle $shuffleId is not in the report"))

  private def numbers(node: JsonNode, names: String*): Seq[Long] = names.map(node.get(_).asLong)

  @Test def `the report sums what tasks pushed and read per shuffle and in total`(): Unit = {
    val one = service(0xabc)
    driver(Seq(one)).registered(8, numMaps = 2, numPartitions = 20)
    planOf(id)
    send(MapPushed(id, 0, 100, PushCounts(5, 500, 2, Map(Reason.BlockTooLarge.code -> 3L))))
    send(MapPushed(id, 1, 101, PushCounts(6, 600, 1, Map(Reason.BlockTooLarge.code -> 4L))))
    placesOf(id)
    send(TaskRead(id, ReadCounts(2, 900, 300, 9, 1, Map(Reason.ChunkCorrupt.code -> 1L))))
    assertTrue(LodestoneReport.awaitQuiet(10000))
    val pushRead = Seq(
      "blocksPushed",
      "bytesPushed",
      "pushRequests",
      "chunksRead",
      "chunkBytes",
      "localChunkBytes",
      "mergedBlocksRead",
      "originalsRead")
    val expected = Seq(11L, 1100L, 3L, 2L, 900L, 300L, 9L, 1L)
    assertEquals(expected, numbers(shuffle(8), pushRead: _*))
    assertEquals(expected, numbers(report().get("totals"), pushRead: _*))
    assertEquals(
      Seq(8L, 0L, 2L, 20L, 1L),
      numbers(shuffle(8), "shuffleId", "generation", "maps", "partitions", "services"))
    assertEquals("merged", shuffle(8).get("state").asText)
    assertEquals(
      Seq(7L, 1L),
      numbers(shuffle(8).get("reasons"), "BLOCK_TOO_LARGE", "CHUNK_CHECKSUM_MISMATCH"))
    val used = report().get("services").get(0)
    assertEquals(
      Seq(one.address.toString, "0000000000000abc", "serving"),
      Seq("hostPort", "incarnation", "state").map(used.get(_).asText))
  }

  @Test def `the report sums the bytes of encoded rows of all maps, and names the format`()
      : Unit = {
    val coordinator = driver(Seq(service(1)))
    coordinator.registered(8, 2, 20, BlockFormat.EncodedRows)
    coordinator.leftToSpark(9, 2, 3, Reason.FewBlocks, BlockFormat.EncodedRows)
    coordinator.registered(10, 2, 20)
    send(MapEncoded(8, EncodedBytes(1000, 300, 200), 200, 800))
    send(MapEncoded(8, EncodedBytes(2000, 500, 400), 400, 1600))
    send(MapEncoded(9, EncodedBytes(50, 40, 30), 30, 45))
    assertTrue(LodestoneReport.awaitQuiet(10000))
    val names = Seq("rowBytes", "encodedBytes", "compressedBytes")
    assertEquals(Seq(3000L, 800L, 600L), numbers(shuffle(8), names: _*))
    assertEquals(Seq(50L, 40L, 30L), numbers(shuffle(9), names: _*))
    assertEquals(Seq(0L, 0L, 0L), numbers(shuffle(10), names: _*))
    assertEquals(Seq(3050L, 840L, 630L), numbers(report().get("totals"), names: _*))
    assertEquals(
      Seq("encoded-rows-1", "encoded-rows-1", "spark-stream"),
      Seq(8, 9, 10).map(shuffle(_).get("format").asText))
  }

  @Test def `lost reports and repeated attempts do not change how large encoded bytes are`()
      : Unit = {
    val report = new DriverReport
    for (shuffleId <- 1 to 3) report.registered(shuffleId, 10, 20, BlockFormat.EncodedRows)
    def attempt(shuffleId: Int): Unit =
      report.encoded(MapEncoded(shuffleId, EncodedBytes(1000, 300, 200), 216, 864))
    for (_ <- 1 to 10) attempt(1)
    assertEquals(4.0, report.sizePerByte(1))
    // Seven of ten maps were run twice.
    for (_ <- 1 to 7) attempt(1)
    assertEquals(4.0, report.sizePerByte(1))
    // The reports of nine of ten maps were lost.
    attempt(2)
    assertEquals(4.0, report.sizePerByte(2))
    assertEquals(1.0, report.sizePerByte(3))
    report.encoded(MapEncoded(3, EncodedBytes(0, 0, 0), 0, 0))
    assertEquals(1.0, report.sizePerByte(3))
  }

  @Test def `Spark's metrics have the same sums under the same codes`(): Unit = {
    driver(Seq(service(1))).registered(8, 1, 20)
    planOf(id)
    val counts = PushCounts(5, 500, 2, Map(Reason.BlockTooLarge.code -> 3L))
    send(MapPushed(id, 0, 100, counts))
    placesOf(id)
    assertTrue(LodestoneReport.awaitQuiet(10000))
    val sources = SparkEnv.get.metricsSystem.getSourcesByName("lodestone")
    val gauges = sources.last.metricRegistry.getGauges
    def value(name: String): Any = gauges.get(name).getValue
    assertEquals(
      Seq(1L, 1L, 5L, 3L, 0L),
      Seq("shuffles", "merged", "blocksPushed", "reason.BLOCK_TOO_LARGE", "reason.NO_SERVICE").map(
        value))
  }

  @Test def `a shuffle left to Spark says why`(): Unit = {
    val said = LogCapture.warnings {
      val coordinator = driver(Seq(service(1)))
      coordinator.leftToSpark(9, 40, 7, Reason.CodecNotConcatenable)
      assertEquals("plain", shuffle(9).get("state").asText)
    }
    val warning = said.filter(_.contains(Reason.CodecNotConcatenable.remedy))
    assertEquals(1, warning.size, said.toString)
    assertEquals(Seq(40L, 7L), numbers(shuffle(9), "maps", "partitions"))
    assertEquals(1L, shuffle(9).get("reasons").get("CODEC_NOT_CONCATENABLE").asLong)
    assertEquals(Seq(1L, 0L, 1L), numbers(report().get("totals"), "shuffles", "merged", "plain"))
  }

  @Test def `removed shuffles stay in the report up to a limit and always in the totals`(): Unit = {
    val coordinator = driver(Seq(service(1)))
    (0 until 1500).foreach { shuffleId =>
      coordinator.registered(shuffleId, 2, 20)
      coordinator.removed(shuffleId)
    }
    coordinator.registered(5000, 2, 20)
    val report = this.report()
    assertEquals(1500L + 1, report.get("totals").get("shuffles").asLong)
    assertEquals((500 until 1500) :+ 5000, shuffles(report).map(_.get("shuffleId").asInt))
  }

  @Test def `a read that arrives after the shuffle was removed still counts`(): Unit = {
    val coordinator = driver(Seq(service(1)))
    coordinator.registered(8, 2, 20)
    planOf(id)
    coordinator.removed(8)
    send(TaskRead(id, ReadCounts(1, 10, 0, 3, 0, Map.empty)))
    assertTrue(LodestoneReport.awaitQuiet(10000))
    assertEquals(3L, shuffle(8).get("mergedBlocksRead").asLong)
  }

  @Test def `pushes under way are not quiet`(): Unit = {
    driver(Seq(service(1))).registered(8, 2, 20)
    planOf(id)
    pushed(id, 0)
    assertFalse(LodestoneReport.awaitQuiet(800))
    pushed(id, 1)
    assertTrue(LodestoneReport.awaitQuiet(10000))
  }

  @Test def `the report outlives the application`(): Unit = {
    val coordinator = driver(Seq(service(1)))
    coordinator.registered(8, 1, 20)
    planOf(id)
    pushed(id, 0, blocks = 42)
    placesOf(id)
    coordinator.stop()
    assertEquals(42L, shuffle(8).get("blocksPushed").asLong)
    assertTrue(LodestoneReport.awaitQuiet(100))
  }

  @Test def `the waiting time is the one of the first reader`(): Unit = {
    def waited(shuffleId: Int): Long = shuffle(shuffleId).get("readersWaitedMillis").asLong
    val coordinator = driver(Seq(service(1)), "spark.lodestone.push.timeout" -> "300ms")
    Seq(4, 5).foreach { shuffleId =>
      coordinator.registered(shuffleId, 2, 20)
      planOf(ShuffleGeneration(shuffleId, 0))
      pushed(ShuffleGeneration(shuffleId, 0), 0)
    }
    pushed(ShuffleGeneration(4, 0), 1)
    placesOf(ShuffleGeneration(5, 0))
    assertTrue(LodestoneReport.awaitQuiet(10000))
    placesOf(ShuffleGeneration(4, 0))
    assertEquals(0, waited(4), "everything was merged when the reader asked")
    assertTrue(waited(5) >= 300, s"it waited ${waited(5)} ms")
  }

  /** A plan of one service is the answer that readers get. */
  private def sentenceOf(
      report: DriverReport,
      generation: ShuffleGeneration,
      level: Level = Level.INFO): Seq[String] = {
    val plan = ShufflePlan(0, 200, replicas = 1, Array(Array(ServiceLocation("a", 1, 1))))
    LogCapture.linesOf(classOf[DriverReport], level) {
      report.settled(generation, plan, ShuffleRecord.Merged)
    }
  }

  @Test def `a merged shuffle is one sentence if something stood against it`(): Unit = {
    val report = new DriverReport
    report.registered(3, 200, 200)
    val generation = ShuffleGeneration(3, 0)
    report.pushed(MapPushed(
      generation,
      0,
      1,
      PushCounts(40000, 1, 1, Map(Reason.BlockTooLarge.code -> 12L))))
    assertEquals(
      Seq(
        "shuffle 3: 40,000 blocks of 200 partitions pushed to 1 service; reasons: " +
          "BLOCK_TOO_LARGE 12"),
      sentenceOf(report, generation))
  }

  @Test def `the log is silent about a merged shuffle that went as planned`(): Unit = {
    val report = new DriverReport
    report.registered(3, 200, 200)
    val generation = ShuffleGeneration(3, 0)
    report.pushed(MapPushed(generation, 0, 1, PushCounts(40000, 1, 1, Map.empty)))
    assertEquals(Nil, sentenceOf(report, generation))
  }

  @Test def `the sentence of a weighed shuffle has the limits`()
      : Unit = {
    val report = new DriverReport
    report.registered(3, 200, 200)
    val generation = ShuffleGeneration(3, 0)
    val limits = Some(MergeLimits(2000, 32768))
    report.chose(generation, MapSample(2, 400, 409600, 118), limits)
    assertEquals(
      Seq(
        "shuffle 3: 0 blocks of 200 partitions pushed to 1 service; " +
          "2 maps had 400 blocks of 409,600 bytes together, a small read takes 118 us " +
          "(shuffles are merged from 2,000 blocks on, up to 32,768 bytes per block on average)"),
      sentenceOf(report, generation, Level.DEBUG))
  }

  @Test def `the report has the samples of mode auto and the load of services`(): Unit = {
    driver(Seq(service(7)), "spark.lodestone.mode" -> "auto").registered(8, 100, 100)
    await(askPlan(id, MapSample(2, 200, 200 * 1000L, 118)))
    val weighed = shuffle(8).get("sample")
    assertEquals(
      Seq(2L, 200L, 200000L, 118L, 10000L, 8192L),
      numbers(
        weighed,
        "maps",
        "blocks",
        "bytes",
        "diskReadMicros",
        "leastBlocks",
        "largestMeanBytes"))
    val load = report().get("services").get(0).get("load")
    val healthy = ScriptedService.Healthy
    assertEquals(
      Seq(healthy.memoryUsed, healthy.memoryLimit, healthy.diskFree, healthy.diskTotal),
      numbers(load, "memoryUsed", "memoryLimit", "diskFree", "diskTotal"))
  }

  @Test def `tools that read the report find the same fields, in this order`(): Unit = {
    val report = new DriverReport(() => 9L)
    report.leftToSpark(3, 40, 7, Reason.SingleMap)
    report.registered(4, 2, 2)
    report.chose(ShuffleGeneration(4, 0), MapSample(1, 2, 3, -1), Some(MergeLimits(5, 6)))
    val zeros =
      """"blocksPushed":0,"bytesPushed":0,"pushRequests":0,"chunksRead":0,"chunkBytes":0,
        |"localChunkBytes":0,"mergedBlocksRead":0,"originalsRead":0,
        |"rowBytes":0,"encodedBytes":0,"compressedBytes":0"""
    val expected =
      s"""{"version":"${ServiceClient.ClientName}","application":"an \\"app\\"",
         |"totals":{"shuffles":2,"merged":0,"plain":1,"remote":0,"readersWaitedMillis":0,
         |$zeros,"reasons":{"SINGLE_MAP":1}},
         |"shuffles":[{"shuffleId":3,"generation":0,"maps":40,"partitions":7,"state":"plain",
         |"format":"spark-stream","services":0,"readersWaitedMillis":0,
         |"registeredMillis":9,"decidedMillis":9,"changedMillis":9,"removedMillis":0,
         |"decision":"SINGLE_MAP",
         |$zeros,"reasons":{"SINGLE_MAP":1}},
         |{"shuffleId":4,"generation":0,"maps":2,"partitions":2,"state":"registered",
         |"format":"spark-stream","services":0,"readersWaitedMillis":0,
         |"registeredMillis":9,"decidedMillis":0,"changedMillis":9,"removedMillis":0,
         |"sample":{"maps":1,"blocks":2,"bytes":3,"diskReadMicros":-1,
         |"leastBlocks":5,"largestMeanBytes":6},
         |$zeros,"reasons":{}}],
         |"services":[],"sentences":{"SINGLE_MAP":"${Reason.SingleMap.sentence}"},
         |"remedies":{"SINGLE_MAP":"${Reason.SingleMap.remedy}"}}"""
    assertEquals(
      expected.stripMargin.replace("\n", ""),
      ReportJson("an \"app\"", report, Seq.empty, Int.MaxValue))
  }
}
