// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import java.io.RandomAccessFile

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.{HashPartitioner, SparkContext, SparkEnv, SparkException, TaskContext}
import org.apache.spark.rdd.ShuffledRDD
import org.apache.spark.shuffle.lodestone.LodestoneReport
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.executor.rows.frames.PushingEngine
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.sql.execution.auron.shuffle.AuronRssShuffleManagerBase

/**
 * Auron's contract where executors keep outputs. The plan lets native code push in any case, so
 * what it pushes becomes a local file.
 */
final class AuronLocalSuite extends AuronJobs {

  @Test def `outputs that no service takes are local files and are read`(): Unit =
    withSpark("remote", nobody) { spark =>
      assertAnswers(spark)
      assertEquals(6, outputs.size)
    }

  @Test def `in other modes the shuffle is left to Auron and its files go with it`(): Unit = {
    for (mode <- Seq("auto", "merge")) {
      withSpark(mode, start()) { spark =>
        val own = FakeAuron.exchange(texts(spark), 8)
        assertEquals(expected(spark), summary(FakeAuron.read(own)))
        assertEquals(6, outputs.size)
        SparkEnv.get.blockManager.master.removeShuffle(own.shuffleId, true)
        assertEquals(Nil, outputs)
        val sparks = new ShuffledRDD[Int, String, String](texts(spark), new HashPartitioner(5))
        assertEquals(expected(spark), summary(sparks.map(_._2)))
        LodestoneReport.awaitQuiet(10000)
      }
      assertEquals(1, report.at(s"/totals/reasons/${Reason.EngineShuffle.code}").asInt, reasons)
    }
  }

  @Test def `some partitions of some maps are read as AQE asks for them`(): Unit = {
    val ranges = Seq(
      ReadRange(0, Int.MaxValue, 0, 3),
      ReadRange(0, 2, 3, 8),
      ReadRange(2, 3, 3, 8),
      ReadRange(3, 6, 3, 8))
    for (mode <- Seq("remote", "merge")) {
      withSpark(mode, nobody) { spark =>
        val exchange = FakeAuron.exchange(texts(spark), 8)
        assertEquals(expected(spark), summary(FakeAuron.read(exchange, ranges)))
      }
    }
  }

  @Test def `a frame of any size and a map without one are in local files`(): Unit =
    withSpark("merge", nobody) { spark =>
      val rows = spark.parallelize(Seq(65 << 20, 0, 7), 3).map(size => (size, "x".repeat(size)))
        .filter(_._1 != 7)
      assertEquals(summary(rows.map(_._2)), summary(shuffled(rows)))
    }

  @Test def `native code that fails in the middle leaves no file behind`(): Unit =
    withSpark("merge", nobody) { spark =>
      val rows = textsMeeting(spark)(_ => PushingEngine.Poison)
      assertEquals(expected(spark), summary(shuffled(rows)))
      assertTrue(hasMet)
      assertEquals(6, outputs.size)
    }

  /** Cancels all jobs in a task, and waits until the task knows. */
  private def cancelled(spark: SparkContext)(text: String): String = {
    spark.cancelAllJobs()
    while (!TaskContext.get().isInterrupted()) Thread.`yield`()
    text
  }

  @Test def `native code that ends without a word as its task is killed commits nothing`(): Unit =
    withSpark("merge", nobody) { spark =>
      val ends = endsOf(spark)
      val rows = textsMeeting(spark)(cancelled(spark)).coalesce(1)
      assertThrows(classOf[SparkException], () => { shuffled(rows).count(); () })
      assertOneKilled(ends)
      assertEquals(Nil, outputs)
    }

  @Test def `a local block that native code cannot decode has its map run again`(): Unit =
    withSpark("remote", nobody) { spark =>
      val read = shuffled(texts(spark))
      val before = summary(read)
      val file = new RandomAccessFile(outputs.head, "rw")
      try file.write(Array.fill[Byte](16)(-1))
      finally file.close()
      assertEquals(before, summary(read))
    }

  @Test def `where Spark encrypts a remote application has Spark's exchanges`(): Unit = {
    val (encrypts, key) =
      ("spark.io.encryption.enabled" -> "true", "spark.auron.enable.shuffleExchange")
    withSpark("remote", nobody, encrypts)(spark => assertEquals("false", spark.getConf.get(key)))
    withSpark("remote", nobody, encrypts, key -> "true") { spark =>
      assertEquals("true", spark.getConf.get(key))
      assertAnswers(spark)
    }
    withSpark("merge", nobody, encrypts) { spark =>
      assertTrue(spark.getConf.getOption(key).isEmpty)
    }
  }

  /** `AuronConverters.supportedShuffleManagers`, and the gate of `getShuffleWriteExec`. */
  @Test def `Auron plans its own exchanges with this manager`(): Unit =
    withSpark("merge", nobody) { spark =>
      assertTrue(spark.getConf.get("spark.shuffle.manager").contains("AuronShuffleManager"))
      assertTrue(SparkEnv.get.shuffleManager.isInstanceOf[AuronRssShuffleManagerBase])
    }
}
