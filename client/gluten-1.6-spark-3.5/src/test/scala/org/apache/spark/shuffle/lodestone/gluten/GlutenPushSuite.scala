// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import org.apache.gluten.config.{HashShuffleWriterType, SortShuffleWriterType}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.LodestoneReport
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange

/** Columnar shuffles in mode remote, of native code that calls as libvelox does. */
final class GlutenPushSuite extends GlutenJobs {
  @Test def `rows come out once each and are counted and leave no file`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      follow(spark)
      val shuffle = columns(texts(spark))
      val closed = GlutenJobs.closedBatches.sum()
      val expected = this.expected(spark)
      assertEquals(expected, summary(read(shuffle)))
      assertEquals(30, GlutenJobs.closedBatches.sum() - closed)
      assertEquals(Nil, outputs)
      assertEquals(3000, shuffle.metrics("numInputRows").value)
      assertEquals(30, shuffle.metrics("inputBatches").value)
      assertTrue(shuffle.metrics("shuffleWallTime").value > 0)
      assertEquals(expected.map(_._1 + 1L).sum, shuffle.metrics("dataSize").value)
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
    assertEquals(3000, rowsWritten.sum())
    assertEquals(shuffle.get("bytesPushed").asLong, bytesWritten.sum())
    assertEquals(3000, rowsRead.sum())
  }

  @Test def `rows of the sort writer come out once each and are counted`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      follow(spark)
      val shuffle = columns(texts(spark), writer = SortShuffleWriterType)
      assertEquals(expected(spark), summary(read(shuffle)))
      assertEquals(Nil, outputs)
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
    assertEquals(3000, rowsRead.sum())
  }

  /** Two tasks share a MiB, which is less than what either of their writers would keep. */
  @Test def `native memory that Spark takes back is pushed inside of Spark's lock`(): Unit = {
    val settings = small :+ ("spark.memory.offHeap.size" -> "1m")
    val services = start(1)
    for (writer <- Seq(HashShuffleWriterType, SortShuffleWriterType)) {
      val before = FakeVelox.reclaimed.get
      withSpark("remote", services, settings: _*) { spark =>
        val rows =
          spark.parallelize(0 until 3000, 4).map(i => (i % 61, s"$i" + "x" * (i % 8000)))
        val shuffle = columns(rows, partitions = 30, writer = writer)
        assertEquals(summary(rows.map(_._2)), summary(read(shuffle)))
        LodestoneReport.awaitQuiet(10000)
      }
      assertRemote()
      assertTrue(FakeVelox.reclaimed.get > before, writer.name)
    }
  }

  @Test def `frames of up to 64 MiB come out whole`(): Unit = {
    val sizes = Seq(0, 1, 64 << 10, (1 << 20) + 1, (64 << 20) - VeloxFrames.PlainHead)
    withSpark("remote", start(1, memory = "512MiB")) { spark =>
      val rows = spark.parallelize(sizes, 2).map(size => (size % 5, "x".repeat(size)))
      assertEquals(summary(rows.map(_._2)), summary(read(columns(rows))))
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
  }

  @Test def `a larger frame keeps its shuffle on executors and no other`(): Unit =
    assertLargeFrameIsKept()

  @Test def `map tasks without rows push nothing and are read`(): Unit = {
    withSpark("remote", start(1)) { spark =>
      val rows = spark.parallelize(Seq.empty[(Int, String)], 3)
      assertEquals(Nil, summary(read(columns(rows))))
      val some = spark.parallelize(Seq((1, "only")), 3)
      assertEquals(summary(some.map(_._2)), summary(read(columns(some))))
    }
    assertEquals("{}", reasons)
  }

  @Test def `ranges of partitions and of maps together are all rows`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      val shuffle = columns(texts(spark), writer = SortShuffleWriterType)
      // Coalesced partitions, a skewed one by its maps, and single maps.
      val ranges = Seq(
        ReadRange(0, 6, 0, 3),
        ReadRange(0, 2, 3, 4),
        ReadRange(2, 6, 3, 4)) ++ (0 until 6).map(map => ReadRange(map, map + 1, 4, 8))
      assertEquals(expected(spark), summary(read(shuffle, ranges)))
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
  }

  @Test def `Spark's own shuffles in the same application are remote and plain`(): Unit = {
    withSpark("remote", start(1)) { spark =>
      val counts = texts(spark).mapValues(_.length.toLong).reduceByKey(_ + _, 4)
      val sums = counts.collect().toMap
      val expected = texts(spark).collect().groupBy(_._1).map { case (key, rows) =>
        key -> rows.map(_._2.length.toLong).sum
      }
      assertEquals(expected, sums)
      LodestoneReport.awaitQuiet(10000)
    }
    assertEquals("remote", shuffle.get("state").asText, LodestoneReport.json())
    assertEquals("{}", reasons)
  }

  @Test def `a native reader that leaves a block early fails and loses no row`(): Unit =
    withSpark("remote", start(1)) { spark =>
      val rows = spark.parallelize(0 until 600, 3).map(i => (i, s"row $i"))
      val shuffle = columns(rows, partitions = 1, leavesAt = Some("row 0"))
      val ended =
        try Left(read(shuffle).count())
        catch { case failed: Exception => Right(failed.getMessage) }
      assertTrue(ended.exists(_.contains("neither read to its end nor closed")), s"$ended")
    }
}
