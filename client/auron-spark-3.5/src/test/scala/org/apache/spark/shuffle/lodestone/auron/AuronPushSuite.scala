// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.{HashPartitioner, SparkException}
import org.apache.spark.rdd.ShuffledRDD
import org.apache.spark.shuffle.lodestone.LodestoneReport
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.executor.rows.frames.PushingEngine

/** Auron's contract in mode remote: its native code pushes to services, and reads from them. */
final class AuronPushSuite extends AuronJobs {
  @Test def `frames of native code come out once each and leave no file`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      follow(spark)
      assertAnswers(spark)
      assertEquals(Nil, outputs)
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
    assertEquals(3000, rowsWritten.sum())
    assertEquals(3000, rowsRead.sum())
    assertEquals(shuffle.get("bytesPushed").asLong, bytesWritten.sum())
  }

  @Test def `frames of up to 64 MiB come out whole`(): Unit = {
    // The two heads of a frame are nine bytes.
    val sizes = Seq(0, 1, 64 << 10, 4 << 20, (64 << 20) - 9)
    withSpark("remote", start(1, memory = "512MiB")) { spark =>
      val rows = spark.parallelize(sizes, 2).map(size => (size, "x".repeat(size)))
      assertEquals(summary(rows.map(_._2)), summary(shuffled(rows)))
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
  }

  @Test def `a larger frame keeps its shuffle on executors and no other`(): Unit =
    assertLargeFrameIsKept()

  @Test def `some partitions of some maps are read as AQE asks for them`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      val exchange = FakeAuron.exchange(texts(spark), 8)
      val ranges = Seq(
        ReadRange(0, Int.MaxValue, 0, 3),
        ReadRange(0, 2, 3, 8),
        ReadRange(2, 3, 3, 8),
        ReadRange(3, 6, 3, 8))
      assertEquals(expected(spark), summary(FakeAuron.read(exchange, ranges)))
    }
    assertRemote()
  }

  @Test def `a map output without a frame is whole`(): Unit = {
    withSpark("remote", start(1)) { spark =>
      assertEquals(Nil, summary(shuffled(spark.parallelize(Seq.empty[(Int, String)], 3))))
    }
    assertEquals("{}", reasons)
  }

  @Test def `exchanges of Spark beside those of Auron are remote too`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      assertAnswers(spark)
      val sparks = new ShuffledRDD[Int, String, String](texts(spark), new HashPartitioner(5))
      assertEquals(expected(spark), summary(sparks.map(_._2)))
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
    assertEquals("remote", report.at("/shuffles/1/state").asText, LodestoneReport.json())
    assertEquals("spark-stream", report.at("/shuffles/1/format").asText)
  }

  @Test def `rows that fail in the middle leave no frame behind`(): Unit =
    assertOneFailed(_ => throw new IllegalStateException("on purpose"))

  @Test def `native code that fails in the middle leaves no frame behind`(): Unit =
    assertOneFailed(_ => PushingEngine.Poison)

  @Test def `an attempt that fails after its commit adds no row`(): Unit =
    assertOneFailed { text =>
      FakeAuron.afterCommit.set(() => throw new IllegalStateException("on purpose"))
      text
    }

  @Test def `a task that is killed while native code waits ends and commits nothing`(): Unit =
    assertKilledTaskEnds()

  @Test def `a part of a frame is refused and the text says why`(): Unit = {
    val thrown = withSpark("remote", start(1)) { spark =>
      val rows = spark.parallelize(Seq(1 -> "whole", 2 -> FakeAuron.Cut), 2)
      assertThrows(classOf[SparkException], () => { shuffled(rows).count(); () })
    }
    assertTrue(thrown.getMessage.contains("no whole frame"), thrown.getMessage)
  }

  @Test def `of two attempts that push at the same time one is read`(): Unit =
    assertOneAttemptIsRead()

  @Test def `a service that dies while maps push costs no row and no failed task`(): Unit =
    assertDeathCostsNothing()

  @Test def `a service that is lost before it is read has all maps run again`(): Unit =
    assertAllMapsRunAgain()
}
