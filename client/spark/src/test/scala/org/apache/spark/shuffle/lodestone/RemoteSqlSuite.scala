// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.expr

/** Queries whose shuffles are at a real daemon. */
final class RemoteSqlSuite {
  @TempDir var directory: Path = _

  /** The answer, and its plan. */
  private def joined(settings: (String, String)*): (Seq[String], String) = {
    val builder = SparkSession
      .builder()
      .config(LocalSpark.conf("remote-sql"))
      .config("spark.sql.shuffle.partitions", "20")
      .config("spark.sql.autoBroadcastJoinThreshold", "-1")
      // Only one of the two sides is so small. The join becomes a broadcast when its size is known.
      .config("spark.sql.adaptive.autoBroadcastJoinThreshold", "100k")
    settings.foreach { case (key, value) => builder.config(key, value) }
    val spark = builder.getOrCreate()
    try {
      val large = spark.range(0, 50000, 1, 6).selectExpr("id % 997 as k", "id as v")
      val small = spark.range(0, 500, 1, 4).selectExpr("id as j", "id * 2 as w")
      val query = large.join(small, expr("k = j"))
      val answer = query.collect().map(_.toString).sorted.toSeq
      (answer, query.queryExecution.executedPlan.toString)
    } finally {
      spark.stop()
    }
  }

  @Test def `a join that became a broadcast does not read whole map outputs from services`()
      : Unit = {
    val (expected, plain) = joined()
    assertTrue(plain.contains("AQEShuffleRead local"), plain)
    val daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    try {
      val (answer, plan) = joined(
        "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
        "spark.lodestone.mode" -> "remote",
        "spark.lodestone.services" -> daemon.hostPort)
      assertEquals(expected, answer)
      assertTrue(plan.contains("BroadcastHashJoin"), plan)
      assertFalse(plan.contains("AQEShuffleRead local"), plan)
    } finally {
      daemon.stop()
    }
  }
}
