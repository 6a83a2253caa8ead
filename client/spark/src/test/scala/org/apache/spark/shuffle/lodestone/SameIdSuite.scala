// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import com.fasterxml.jackson.databind.ObjectMapper
import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext}
import org.apache.spark.rdd.{RDD, ShuffledRDD}

/**
 * Two drivers with the same application id use one service. Two masters give such ids, and two
 * local modes that begin in the same millisecond. Map ids are equal as well. The ledgers notice
 * foreign rows, but data that the other driver removes at its end would be lost.
 */
@Tag("seldom")
final class SameIdSuite {
  @TempDir var directory: Path = _

  private var daemon: DaemonProcess = _

  @BeforeEach def startDaemon(): Unit =
    daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))

  @AfterEach def stopDaemon(): Unit = daemon.stop()

  /** Runs the same job on other rows in a JVM of its own. Returns its result and its reasons. */
  private def otherDriver(mode: String): String = {
    val answer = Files.createTempFile(directory, "answer", ".txt").toFile
    val log = new File(directory.toFile, s"other-$mode.log")
    val java = new File(System.getProperty("java.home"), "bin/java").getPath
    val command = Seq(java) ++ SameIdSuite.javaOptions ++ Seq(
      "-cp",
      System.getProperty("java.class.path"),
      SameIdSuite.MainClass,
      mode,
      daemon.hostPort,
      answer.getPath)
    val process =
      new ProcessBuilder(command: _*).redirectErrorStream(true).redirectOutput(log).start()
    assertTrue(process.waitFor(300, TimeUnit.SECONDS), "the other driver hangs")
    assertEquals(0, process.exitValue(), new String(Files.readAllBytes(log.toPath)))
    new String(Files.readAllBytes(answer.toPath))
  }

  private def assertApart(mode: String): Unit = {
    val spark = SameIdSuite.context(mode, daemon.hostPort)
    try {
      val rows = SameIdSuite.shuffled(spark, factor = 1)
      // Its map outputs are at the service before the other driver begins.
      assertEquals(SameIdSuite.answer(factor = 1), SameIdSuite.sums(rows))
      assertEquals(SameIdSuite.answer(factor = 3) + "\n{}", otherDriver(mode))
      assertEquals(SameIdSuite.answer(factor = 1), SameIdSuite.sums(rows))
      assertEquals("{}", SameIdSuite.reasons())
    } finally {
      spark.stop()
    }
  }

  @Test def `two drivers with one application id do not read each other's remote shuffles`(): Unit =
    assertApart("remote")

  @Test def `two drivers with one application id do not read each other's merged shuffles`(): Unit =
    assertApart("merge")
}

private object SameIdSuite {
  val MainClass = "org.apache.spark.shuffle.lodestone.SameIdDriver"

  /** The options that Spark needs in newer JVMs, as in this one. */
  def javaOptions: Seq[String] =
    java.lang.management.ManagementFactory.getRuntimeMXBean.getInputArguments
      .toArray(Array.empty[String])
      .toSeq
      .filter(option => option.startsWith("--add-") || option.startsWith("java.base/"))

  def context(mode: String, service: String): SparkContext = {
    val conf = LocalSpark.conf("same-id")
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .set("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
      .set("spark.lodestone.mode", mode)
      .set("spark.lodestone.services", service)
      // Readers wait for all pushes, on a slow machine too.
      .set("spark.lodestone.push.timeout", "60s")
    val spark = new SparkContext(conf)
    // The name of the application in the plugin, also before its first question.
    spark.conf.set("spark.app.id", "local-1764000000000")
    spark
  }

  def shuffled(spark: SparkContext, factor: Int): RDD[(Int, Int)] = {
    val pairs = spark.parallelize(0 until 20000, 6).map(x => (x % 997, x * factor))
    new ShuffledRDD[Int, Int, Int](pairs, new HashPartitioner(8))
  }

  def sums(rows: RDD[(Int, Int)]): String =
    rows.collect().groupBy(_._1).toSeq.map { case (key, all) =>
      s"$key ${all.length} ${all.map(_._2.toLong).sum}"
    }.sorted.mkString("\n")

  /** The reasons in the report. */
  def reasons(): String = {
    LodestoneReport.awaitQuiet(60000)
    new ObjectMapper().readTree(LodestoneReport.json()).at("/totals/reasons").toString
  }

  def answer(factor: Int): String =
    (0 until 20000).groupBy(_ % 997).toSeq.map { case (key, all) =>
      s"$key ${all.size} ${all.map(_.toLong * factor).sum}"
    }.sorted.mkString("\n")
}

/** The other driver. */
private[spark] object SameIdDriver {
  def main(arguments: Array[String]): Unit = {
    val answer = new File(arguments(2)).toPath
    val spark = SameIdSuite.context(mode = arguments(0), service = arguments(1))
    try {
      val found = SameIdSuite.sums(SameIdSuite.shuffled(spark, factor = 3))
      Files.write(answer, s"$found\n${SameIdSuite.reasons()}".getBytes("UTF-8"))
      ()
    } finally {
      spark.stop()
    }
  }
}
