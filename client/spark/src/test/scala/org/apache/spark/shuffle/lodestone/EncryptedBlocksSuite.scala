// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.HashPartitioner
import org.apache.spark.shuffle.lodestone.plan.BlockFormat

/** Jobs with IO encryption, in all modes. */
@Tag("seldom")
final class EncryptedBlocksSuite extends EncodedJobs {
  private val encryption = "spark.io.encryption.enabled" -> "true"
  private val spilling = "spark.shuffle.spill.numElementsForceSpillThreshold" -> "700"

  /** Pushes end before the first read, however busy the machine is. */
  private val unhurried =
    Seq("spark.lodestone.push.timeout" -> "2min", "spark.lodestone.request.timeout" -> "30s")

  @Test def `rows of SQL are encoded, encrypted and merged, and equal plain Spark's`(): Unit = {
    start()
    for ((mode, codec) <- Seq("merge" -> "zstd", "auto" -> "lz4", "remote" -> "lz4")) {
      mergedChunks.reset()
      val settings = inMode(mode) ++ unhurried ++
        Seq(encryption, spilling, "spark.io.compression.codec" -> codec)
      bytesOf(settings: _*)
      assertEquals(Seq(BlockFormat.EncodedRows.name), formats)
      assertEquals(mode != "auto", mergedChunks.sum() > 0, s"$mode: ${mergedChunks.sum()} chunks")
    }
    assertEquals(0, failedReads.sum())
  }

  @Test def `without their service tasks read the encrypted originals`(): Unit =
    assertOriginalsRead(encryption)

  /**
   * Runs a job, and returns whose files have the text meanwhile: the daemon's, executors'. The data
   * are more than the daemon's memory.
   */
  private def disclosing(settings: (String, String)*): Set[String] = withSql(settings: _*) {
    spark =>
      val secret = "nobody but Spark reads this"
      val rows = spark.sparkContext.parallelize(0 until 30000, 4)
        .map(n => (n * 31 % 5003, s"$secret $n" + "." * 1500))
        .partitionBy(new HashPartitioner(100))
      assertEquals(30000L, rows.count())
      val files = Files.walk(directory)
      try {
        files.filter(Files.isRegularFile(_)).toArray.toSeq
          .map(file => directory.relativize(new File(file.toString).toPath))
          .filter { name =>
            val bytes = Files.readAllBytes(directory.resolve(name))
            new String(bytes, ISO_8859_1).contains(secret)
          }
          .map(_.getName(0).toString)
          .toSet
      } finally {
        files.close()
      }
  }

  @Test def `the map of an encrypted original that a disk has damaged is run again`(): Unit = {
    start().kill()
    readAgainAfter(inMode("merge") :+ encryption: _*)(damageOutputs())
    assertTrue(failures.asScala.exists(_.contains("DISK_ISSUE")), s"no diagnosis: $failures")
  }

  @Test def `neither a service nor an executor has a row on its disk that is not encrypted`()
      : Unit = {
    start(memory = "32MiB")
    val open = Seq(
      "spark.shuffle.compress" -> "false",
      "spark.serializer" -> "org.apache.spark.serializer.KryoSerializer")
    for (mode <- Seq("merge", "remote"))
      assertEquals(Set.empty, disclosing(inMode(mode) ++ unhurried ++ open :+ encryption: _*))
    val found = disclosing(inMode("merge") ++ unhurried ++ open: _*)
    assertEquals(Set("local", "daemon0"), found, "this test would not see a row")
  }
}
