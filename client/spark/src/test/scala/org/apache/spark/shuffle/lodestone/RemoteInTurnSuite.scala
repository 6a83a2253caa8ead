// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path
import java.time.Duration

import org.junit.jupiter.api.Assertions.{assertEquals, assertTimeoutPreemptively}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.function.ThrowingSupplier
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.sql.SparkSession

/** Segments that are read in turn, while Spark limits the blocks in flight per address. */
final class RemoteInTurnSuite {
  @TempDir var directory: Path = _

  /** 13 maps, some 3 MiB in each of 4 partitions, all read by one task, segment by segment. */
  private def lengths(settings: (String, String)*): Long = {
    val builder = SparkSession
      .builder()
      .config(LocalSpark.conf("in-turn"))
      .config("spark.io.encryption.enabled", "true")
      .config("spark.sql.shuffle.partitions", "4")
      .config("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")
      .config("spark.sql.adaptive.advisoryPartitionSizeInBytes", "256m")
    settings.foreach { case (key, value) => builder.config(key, value) }
    val spark = builder.getOrCreate()
    try {
      val rows =
        spark.range(0, 200000, 1, 13).selectExpr("id", "sha2(cast(id as string), 256) as h")
      val grouped = rows.groupBy("h").agg(Map("id" -> "max"))
      grouped.rdd.map(_.getString(0).length.toLong).reduce(_ + _)
    } finally {
      spark.stop()
    }
  }

  @Test def `a limit of blocks in flight per address does not stop a task that reads in turn`()
      : Unit = {
    val daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    try {
      val job: ThrowingSupplier[java.lang.Long] = () =>
        lengths(
          "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
          "spark.lodestone.mode" -> "remote",
          "spark.lodestone.services" -> daemon.hostPort,
          "spark.reducer.maxBlocksInFlightPerAddress" -> "10")
      assertEquals(64L * 200000, assertTimeoutPreemptively(Duration.ofMinutes(5), job))
    } finally {
      daemon.stop()
    }
  }
}
