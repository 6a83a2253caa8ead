// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path
import java.time.Duration

import org.junit.jupiter.api.Assertions.{assertEquals, assertTimeoutPreemptively}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.function.ThrowingSupplier
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext}

/**
 * Segments that cannot be read as one stream, and come in turn, while Spark limits the blocks in
 * flight per address.
 */
final class RemoteInTurnSuite {
  @TempDir var directory: Path = _

  /** 40 maps of some 100 KiB, all read by one task, segment by segment. */
  private def lengths(settings: (String, String)*): Long = {
    val conf = LocalSpark.conf("in-turn")
      .set("spark.serializer", "org.apache.spark.serializer.JavaSerializer")
      .setAll(settings)
    val spark = new SparkContext(conf)
    try {
      spark
        .parallelize(0 until 80000, 40)
        .map(n => ((n, n), f"${n * 2654435761L}%016x" * 4))
        .partitionBy(new HashPartitioner(1))
        .map(_._2.length.toLong)
        .reduce(_ + _)
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
      assertEquals(64L * 80000, assertTimeoutPreemptively(Duration.ofMinutes(5), job))
    } finally {
      daemon.stop()
    }
  }
}
