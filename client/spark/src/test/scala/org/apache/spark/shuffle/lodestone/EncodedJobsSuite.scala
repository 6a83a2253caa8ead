// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.col

/** Queries in mode remote. */
@Tag("seldom")
final class EncodedJobsSuite extends EncodedJobs {
  private def remote: Seq[(String, String)] = inMode("remote")

  @Test def `rows of all types are plain Spark's, in a part of the bytes, with each codec`()
      : Unit = {
    start()
    for ((codec, most) <- Seq("lz4" -> 0.6, "zstd" -> 0.8, "snappy" -> 1.1, "lzf" -> 1.1)) {
      val setting = "spark.io.compression.codec" -> codec
      val plain = plainBytes(setting)
      val ours = bytesOf(remote :+ setting: _*)
      assertTrue(ours < plain * most, s"$codec: $ours bytes, and plain Spark wrote $plain")
    }
    val none = "spark.shuffle.compress" -> "false"
    bytesOf(remote :+ none: _*)
    assertEquals(0, failedReads.sum())
  }

  @Test def `with the key off blocks have as many bytes as plain Spark's`(): Unit = {
    start()
    val plain = plainBytes()
    val ours = bytesOf(remote :+ "spark.lodestone.encodedRows" -> "false": _*)
    assertTrue(ours > plain * 0.9 && ours < plain * 1.1, s"$ours bytes, and plain Spark $plain")
  }

  @Test def `a task that reads hundreds of partitions keeps no memory of those before`(): Unit = {
    start()
    val partitions = 600
    val zstd = "spark.io.compression.codec" -> "zstd"
    val (rows, kept) = withSql(remote :+ zstd: _*) { spark =>
      val ids = spark.range(0, 4L * partitions, 1, 2).toDF("id").repartition(partitions, col("id"))
      ids.rdd.coalesce(1).mapPartitions(EncodedJobsSuite.readAll).collect().head
    }
    assertEquals(4 * partitions, rows)
    // Each reader has 400 KiB.
    assertTrue(kept < (64 << 20), s"$kept bytes")
  }

  @Test def `encoded outputs that no service takes stay on executors and are read there`()
      : Unit = {
    start().kill()
    val expected = plainRows
    assertEquals(expected, withSql(remote: _*)(rowsOf(everything)))
    assertEquals(0, failedReads.sum())
  }

  @Test def `after the loss of the only service encoded outputs are made again on executors`()
      : Unit = {
    val daemon = start()
    readAgainAfter(remote: _*)(daemon.kill())
  }

  @Test def `the map of an encoded output that an executor's disk has damaged is run again`()
      : Unit = {
    start().kill()
    readAgainAfter(remote: _*)(damageOutputs())
  }
}

private object EncodedJobsSuite {

  /** Returns the number of rows, and by how much the used memory has grown at the end. */
  def readAll(rows: Iterator[Row]): Iterator[(Int, Long)] = {
    val before = usedBytes()
    Iterator((rows.size, usedBytes() - before))
  }

  private def usedBytes(): Long = {
    System.gc()
    Runtime.getRuntime.totalMemory - Runtime.getRuntime.freeMemory
  }
}
