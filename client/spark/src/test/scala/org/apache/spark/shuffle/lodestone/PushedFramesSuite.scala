// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.SplittableRandom

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{
  OwnWaySerializer,
  PushingEngine,
  PushingEngineShuffleManager
}
import org.apache.spark.shuffle.lodestone.plan.Reason

/**
 * The contract of an engine that pushes: whole jobs whose frames come from threads of native code,
 * which writes over its memory as soon as a call returns. All rows come out once.
 */
@Tag("seldom-4")
final class PushedFramesSuite extends PushJobs(classOf[PushingEngineShuffleManager], "pushed-1") {
  @Test def `frames of native threads come out once each and leave no file`(): Unit = {
    withSpark("remote", start(2)) { spark =>
      follow(spark)
      val expected = this.expected(spark)
      assertEquals(expected, summary(shuffled(texts(spark))))
      assertEquals(Nil, outputs)
      LodestoneReport.awaitQuiet(10000)
      assertEquals(expected.map(_._1 + 5L).sum, shuffle.get("bytesPushed").asLong)
    }
    assertRemote()
    assertEquals(3000, rowsRead.sum())
    assertEquals(shuffle.get("bytesPushed").asLong, bytesWritten.sum())
  }

  @Test def `partitions in any order do not make a request each`(): Unit = {
    val seed = System.nanoTime()
    println(s"partitions in the order of seed $seed")
    withSpark("remote", start(2)) { spark =>
      val rows = spark.parallelize(0 until 40000, 4).map { i =>
        (new SplittableRandom(seed + i).nextInt(1000), s"$i")
      }
      assertEquals(summary(rows.map(_._2)), summary(shuffled(rows, partitions = 200)))
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
    // Two services, and the ends of blocks that had more than one round.
    assertTrue(shuffle.get("pushRequests").asInt <= 4 * 4, LodestoneReport.json())
  }

  @Test def `frames of no byte up to 64 MiB come out whole`(): Unit = {
    // The sign and the size of a frame are five bytes.
    val sizes = Seq(0, 1, 64 << 10, 1 << 20, 4 << 20, (64 << 20) - 5)
    withSpark("remote", start(1, memory = "512MiB")) { spark =>
      val rows = spark.parallelize(sizes, 2).map(size => (size, "x".repeat(size)))
      assertEquals(summary(rows.map(_._2)), summary(shuffled(rows)))
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
  }

  @Test def `a larger frame keeps its shuffle on executors and no other`(): Unit =
    assertLargeFrameIsKept()

  @Test def `a map output without a frame is whole`(): Unit = {
    withSpark("remote", start(1)) { spark =>
      assertEquals(Nil, summary(shuffled(spark.parallelize(Seq.empty[(Int, String)], 3))))
    }
    assertEquals("{}", reasons)
  }

  @Test def `four tasks with memory for less than what they hold push all of it`(): Unit = {
    withSpark("remote", start(2), small: _*) { spark =>
      val rows = spark.parallelize(0 until 8000, 8).map(i => (i % 61, s"$i" + "x" * (i % 2000)))
      assertEquals(summary(rows.map(_._2)), summary(shuffled(rows, partitions = 30)))
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
  }

  @Test def `rows that fail in the middle leave no frame behind`(): Unit =
    assertOneFailed(_ => throw new IllegalStateException("on purpose"))

  @Test def `native code that fails in the middle leaves no frame behind`(): Unit =
    assertOneFailed(_ => PushingEngine.Poison)

  @Test def `a task that is killed while native code pushes ends at once`(): Unit =
    assertKilledTaskEnds(small: _*)

  @Test def `of two attempts that push at the same time one is read`(): Unit =
    assertOneAttemptIsRead()

  @Test def `a service that dies while maps push costs no row and no failed task`(): Unit =
    assertDeathCostsNothing()

  @Test def `a service that is lost before it is read has all maps run again`(): Unit = {
    assertAllMapsRunAgain()
  }

  @Test def `outputs that no service takes are the engine's own and are read`(): Unit =
    withSpark("remote", nobody) { spark =>
      assertEquals(expected(spark), summary(shuffled(texts(spark))))
      assertEquals(6, outputs.size)
    }

  @Test def `where executors keep outputs the shuffle is left to the engine`(): Unit = {
    withSpark("merge", start()) { spark =>
      // Registers the shuffle, which this engine could not read by itself.
      shuffled(texts(spark)).dependencies.foreach(_.rdd.dependencies)
      val others = new OwnWaySerializer(SparkEnv.get.conf)
      assertEquals(expected(spark), summary(shuffled(texts(spark), others)))
      LodestoneReport.awaitQuiet(10000)
    }
    assertEquals(s"""{"${Reason.EngineShuffle.code}":2}""", reasons)
  }
}
