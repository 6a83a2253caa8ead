// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.ConcurrentLinkedQueue

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.executor.ShuffleReadMetrics
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.lodestone.{LocalSpark, LodestoneShuffleManager}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.expr

/** SQL shuffles without merged blocks give plain Spark's rows, and are fetched as there. */
@Tag("seldom")
final class OriginalsReaderSuite {

  /** The answer, the blocks that were fetched for it, and the rows that came out of them. */
  private def answerOf(
      mode: Option[String],
      settings: (String, String)*): (Seq[String], Long, Long) = {
    val reads = new ConcurrentLinkedQueue[ShuffleReadMetrics]()
    val builder = SparkSession
      .builder()
      .config(LocalSpark.conf("originals"))
      .config("spark.sql.shuffle.partitions", "40")
    mode.foreach { mode =>
      builder.config("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
      builder.config("spark.lodestone.mode", mode)
      // Nobody listens there: in mode merge all shuffles are Lodestone's, and none is merged.
      builder.config("spark.lodestone.services", "127.0.0.1:1")
    }
    settings.foreach { case (key, value) => builder.config(key, value) }
    val spark = builder.getOrCreate()
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        Option(end.taskMetrics).foreach(metrics => reads.add(metrics.shuffleReadMetrics))
    })
    try {
      val rows = spark.range(0, 50000, 1, 6).selectExpr("id % 997 as k", "id as v")
      val other = rows.selectExpr("k as j", "repeat('x', cast(v % 60 as int)) as s")
      val joined = rows.groupBy("k").count().join(other.distinct(), expr("k = j"))
      val answer = joined.collect().map(_.toString).sorted.toSeq
      spark.sparkContext.listenerBus.waitUntilEmpty()
      val all = reads.toArray(Array.empty[ShuffleReadMetrics])
      def sum(what: ShuffleReadMetrics => Long): Long = all.map(what).sum
      (answer, sum(_.totalBlocksFetched), sum(_.recordsRead))
    } finally {
      spark.stop()
    }
  }

  private def assertSame(settings: (String, String)*): Unit = {
    val (answer, blocks, records) = answerOf(None, settings: _*)
    Seq("merge", "auto").foreach { mode =>
      val (read, fetched, counted) = answerOf(Some(mode), settings: _*)
      assertEquals(answer, read, s"$mode $settings")
      assertEquals((blocks, records), (fetched, counted), s"$mode $settings")
    }
  }

  @Test def `coalesced partitions are fetched as one block of each map`(): Unit = {
    assertSame("spark.sql.autoBroadcastJoinThreshold" -> "-1")
    assertSame("spark.sql.autoBroadcastJoinThreshold" -> "-1", "spark.shuffle.compress" -> "false")
  }

  @Test def `without adaptive execution each partition is fetched by itself`(): Unit =
    assertSame(
      "spark.sql.adaptive.enabled" -> "false",
      "spark.sql.autoBroadcastJoinThreshold" -> "-1")

  @Test def `a join that became a broadcast reads whole map outputs`(): Unit =
    assertSame(
      "spark.sql.autoBroadcastJoinThreshold" -> "-1",
      // Only one of the two sides is so small.
      "spark.sql.adaptive.autoBroadcastJoinThreshold" -> "100k")
}
