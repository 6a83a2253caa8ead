// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.TimeUnit

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.rdd.RDD
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{
  FrameEngineShuffleManager,
  OwnWaySerializer
}
import org.apache.spark.shuffle.lodestone.plan.Reason

/** Whole jobs of an engine that writes local files by itself. */
@Tag("seldom-4")
final class EngineJobsSuite extends EngineJobs(classOf[FrameEngineShuffleManager]) {

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

  @Test def `frames of many small blocks are merged in mode auto as well`(): Unit = {
    withSpark("auto", start(2), "spark.lodestone.push.timeout" -> "60s") { spark =>
      // Each of 100 maps has a block for each of 120 partitions.
      val rows = spark.parallelize(0 until 24000, 100).map(i => (i, s"$i"))
      assertEquals(summary(rows.map(_._2)), summary(shuffled(rows, partitions = 120)))
      LodestoneReport.awaitQuiet(20000)
    }
    assertEquals("merged", shuffle.get("state").asText, LodestoneReport.json())
    assertEquals("test-1", shuffle.get("format").asText)
    assertTrue(shuffle.get("mergedBlocksRead").asInt > 0, LodestoneReport.json())
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

  @Test def `a service that is lost has all maps run again`(): Unit = {
    assertAllMapsRunAgain()
    assertTrue(!shuffle.get("reasons").isEmpty, LodestoneReport.json())
  }

  @Test def `a frame that is larger than a request keeps its shuffle and no other`(): Unit = {
    def withLarge(spark: SparkContext): RDD[(Int, String)] =
      spark.parallelize(0 until 20, 4).map(i => (i, if (i == 7) "x".repeat(70 << 20) else s"$i"))
    withSpark("remote", start(2), ownHost) { spark =>
      val expected = summary(withLarge(spark).map(_._2))
      assertEquals(expected, summary(shuffled(withLarge(spark))))
      assertEquals(this.expected(spark), summary(shuffled(texts(spark))))
      LodestoneReport.awaitQuiet(10000)
    }
    val kept = report.at(s"/totals/reasons/${Reason.PushTooLarge.code}").asInt
    assertTrue(kept > 0, reasons)
    assertEquals("remote", report.at("/shuffles/1/state").asText, LodestoneReport.json())
  }

  @Test def `a task that is killed while it pushes frames ends at once and leaves no file`()
      : Unit = {
    withSpark("remote", start(1), "spark.lodestone.request.timeout" -> "60s") { spark =>
      val ends = endsOf(spark)
      val rows = textsMeeting(spark) { text =>
        daemons.head.freeze()
        text
      }
      val waiting = shuffled(rows).countAsync()
      // The engine has written a file, so what its task waits for is its push.
      while (!hasMet || outputs.isEmpty) Thread.`yield`()
      waiting.cancel()
      assertOneKilled(ends)
      // The other task may end a moment later.
      val endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
      while (outputs.nonEmpty && System.nanoTime() < endNs) Thread.`yield`()
      assertEquals(Nil, outputs)
      daemons.head.thaw()
      assertEquals(expected(spark), summary(shuffled(texts(spark))))
    }
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
