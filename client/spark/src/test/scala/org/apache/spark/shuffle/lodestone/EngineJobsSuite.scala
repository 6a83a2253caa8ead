// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.{Files, Path}

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext, SparkEnv}
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{
  FrameEngineShuffleManager,
  FrameSerializer,
  OwnWaySerializer
}
import org.apache.spark.shuffle.lodestone.plan.Reason

/** Whole jobs of an engine whose blocks are frames, with real daemons. */
final class EngineJobsSuite {
  @TempDir var directory: Path = _

  private val daemons = ArrayBuffer.empty[DaemonProcess]
  private val nobody = "127.0.0.1:1"

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  private def start(count: Int = 1): String = {
    for (_ <- 1 to count) {
      daemons += DaemonProcess.start(new File(directory.toFile, s"daemon${daemons.size}"))
    }
    daemons.map(_.hostPort).mkString(",")
  }

  private def withSpark[T](mode: String, services: String, settings: (String, String)*)(
      job: SparkContext => T): T = {
    val conf = LocalSpark.conf("engine-jobs", master = "local[2, 4]")
      .set("spark.local.dir", local.getPath)
      .set("spark.lodestone.request.timeout", "500ms")
      .set("spark.shuffle.manager", classOf[FrameEngineShuffleManager].getName)
      .set("spark.lodestone.mode", mode)
      .set("spark.lodestone.services", services)
      .setAll(settings)
    val spark = new SparkContext(conf)
    try job(spark)
    finally spark.stop()
  }

  private def local: File = new File(directory.toFile, "local")

  private def report: JsonNode = new ObjectMapper().readTree(LodestoneReport.json())

  private def reasons: String = report.at("/totals/reasons").toString

  private def shuffle: JsonNode = report.at("/shuffles/0")

  /** Texts of many sizes, the longest of which has some MiB, and of no letter. */
  private def texts(spark: SparkContext, maps: Int = 6): RDD[(Int, String)] =
    spark.parallelize(0 until 3000, maps).map { i =>
      val length = if (i % 7 == 0) 0 else if (i == 1234) 3 << 20 else i % 500
      (i % 97, s"$i" + "x" * length)
    }

  private def shuffled(
      rows: RDD[(Int, String)],
      serializer: Serializer = new FrameSerializer(SparkEnv.get.conf)): RDD[String] =
    new ShuffledRDD[Int, String, String](rows, new HashPartitioner(8))
      .setSerializer(serializer)
      .asInstanceOf[RDD[(Any, String)]]
      .map(_._2)

  /** All texts by their sizes and hashes. */
  private def summary(rows: RDD[String]): Seq[(Int, Int)] =
    rows.map(text => (text.length, text.hashCode)).collect().sorted.toSeq

  private def expected(spark: SparkContext): Seq[(Int, Int)] = summary(texts(spark).map(_._2))

  private def outputs: Seq[File] =
    Files.walk(local.toPath).toArray.toSeq.map(_.asInstanceOf[Path].toFile)
      .filter(file => file.getName.startsWith("shuffle_") && file.getName.endsWith(".data"))

  @Test def `frames are merged and read in place of originals`(): Unit = {
    withSpark("merge", start(2), "spark.lodestone.push.maxBlockSize" -> "4m") { spark =>
      assertEquals(expected(spark), summary(shuffled(texts(spark))))
      LodestoneReport.awaitQuiet(10000)
    }
    assertEquals("test-1", shuffle.get("format").asText)
    assertEquals("merged", shuffle.get("state").asText)
    assertEquals(0, shuffle.get("originalsRead").asInt)
    assertEquals(48, shuffle.get("mergedBlocksRead").asInt)
    assertEquals("{}", reasons)
  }

  @Test def `blocks that are not merged are read as originals after their check`(): Unit = {
    withSpark("merge", nobody) { spark =>
      assertEquals(expected(spark), summary(shuffled(texts(spark))))
      LodestoneReport.awaitQuiet(10000)
    }
    assertTrue(!reasons.contains(Reason.RecordsUnchecked.code), reasons)
    assertTrue(reasons.contains(Reason.NoService.code), reasons)
  }

  @Test def `a damaged original is written again before the engine trusts it`(): Unit = {
    withSpark("merge", nobody) { spark =>
      val read = shuffled(texts(spark))
      val before = summary(read)
      assertEquals(6, outputs.size)
      outputs.foreach(DamagedFile(_))
      assertEquals(before, summary(read))
      LodestoneReport.awaitQuiet(10000)
    }
    assertTrue(reasons.contains(Reason.OriginalMismatch.code), reasons)
  }

  @Test def `frames are kept by services only and leave no file`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      assertEquals(expected(spark), summary(shuffled(texts(spark))))
      assertEquals(Nil, outputs)
      LodestoneReport.awaitQuiet(10000)
    }
    assertEquals("remote", shuffle.get("state").asText)
    assertEquals(0, shuffle.get("originalsRead").asInt)
    assertEquals("{}", reasons)
  }

  @Test def `a service that is lost has all maps run again`(): Unit =
    withSpark("remote", start(2)) { spark =>
      val read = shuffled(texts(spark))
      val before = summary(read)
      daemons.head.kill()
      assertEquals(before, summary(read))
    }

  @Test def `outputs of frames that no service takes stay on the executor`(): Unit =
    withSpark("remote", nobody) { spark =>
      assertEquals(expected(spark), summary(shuffled(texts(spark))))
      assertEquals(6, outputs.size)
    }

  @Test def `a shuffle that the engine writes in another way is left to it`(): Unit = {
    for (mode <- Seq("merge", "remote")) {
      withSpark(mode, start()) { spark =>
        val others = new OwnWaySerializer(SparkEnv.get.conf)
        assertEquals(expected(spark), summary(shuffled(texts(spark), others)))
        LodestoneReport.awaitQuiet(10000)
      }
      assertEquals(s"""{"${Reason.EngineShuffle.code}":1}""", reasons, mode)
      assertEquals(0, report.at("/totals/blocksPushed").asInt)
    }
  }

  @Test def `frames are left to the engine if Spark would encrypt them`(): Unit =
    for (mode <- Seq("merge", "remote")) {
      withSpark(mode, start(), "spark.io.encryption.enabled" -> "true") { spark =>
        // Registers the shuffle, which this engine could not read by itself.
        shuffled(texts(spark)).dependencies.foreach(_.rdd.dependencies)
        LodestoneReport.awaitQuiet(10000)
      }
      assertEquals(s"""{"${Reason.EngineNotEncrypted.code}":1}""", reasons, mode)
    }
}
