// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import org.apache.gluten.config.{
  GpuHashShuffleWriterType,
  HashShuffleWriterType,
  SortShuffleWriterType
}
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.LodestoneReport
import org.apache.spark.shuffle.lodestone.plan.Reason

/** What fails in the middle, and what is left to Gluten. No row is lost, and none comes twice. */
final class GlutenFailuresSuite extends GlutenJobs {

  @Test def `native code that fails in the middle leaves no frame behind`(): Unit =
    assertOneFailed(_ => FakeVelox.Poison)

  @Test def `a frame that native code has made and not pushed costs an attempt and no row`(): Unit =
    assertOneFailed(_ => FakeVelox.Withheld)

  @Test def `a task that is killed while native code pushes ends at once`(): Unit =
    assertKilledTaskEnds(small: _*)

  @Test def `of two attempts that push at the same time one is read`(): Unit =
    assertOneAttemptIsRead()

  @Test def `a service that dies while maps push costs no row and no failed task`(): Unit =
    assertDeathCostsNothing()

  @Test def `a service that is lost before it is read has all maps run again`(): Unit =
    assertAllMapsRunAgain()

  @Test def `outputs that no service takes are Gluten's own files and are read`(): Unit =
    withSpark("remote", nobody) { spark =>
      for (writer <- Seq(HashShuffleWriterType, SortShuffleWriterType)) {
        assertEquals(expected(spark), summary(read(columns(texts(spark), writer = writer))))
      }
      assertEquals(12, outputs.size)
    }

  @Test def `a shuffle that only graphics processors write is left to Gluten`(): Unit = {
    withSpark("remote", start(1), ownHost) { spark =>
      val shuffle = columns(texts(spark), writer = GpuHashShuffleWriterType)
      assertEquals(expected(spark), summary(read(shuffle)))
      assertEquals(6, outputs.size)
      LodestoneReport.awaitQuiet(10000)
    }
    assertEquals(s"""{"${Reason.EngineShuffle.code}":1}""", reasons)
  }

  @Test def `where executors keep outputs Gluten's shuffles are left to it`(): Unit =
    for (mode <- Seq("merge", "auto")) {
      withSpark(mode, start(1)) { spark =>
        assertEquals(expected(spark), summary(read(columns(texts(spark)))))
        val counts = texts(spark).mapValues(_.length.toLong).reduceByKey(_ + _, 4)
        assertEquals(texts(spark).map(_._2.length.toLong).sum().toLong, counts.values.sum().toLong)
        LodestoneReport.awaitQuiet(10000)
      }
      assertEquals(1, report.at(s"/totals/reasons/${Reason.EngineShuffle.code}").asInt, reasons)
      assertEquals("spark-stream", report.at("/shuffles/1/format").asText)
    }
}
