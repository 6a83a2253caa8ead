// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.LongAdder

import scala.collection.concurrent.TrieMap
import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.FetchFailed
import org.apache.spark.rdd.RDD
import org.apache.spark.shuffle.lodestone.plan.BlockFormat
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.sql.{Row, SparkSession}

/** Queries whose exchanges are encoded by column. */
private[lodestone] abstract class EncodedJobs {
  import EncodedJobs._

  @TempDir var directory: Path = _

  protected val daemons: ArrayBuffer[DaemonProcess] = ArrayBuffer.empty
  protected val written = new LongAdder
  protected val failedReads = new LongAdder

  /** What Spark says about failed reads. */
  protected val failures = new ConcurrentLinkedQueue[String]
  protected val mergedChunks = new LongAdder

  /** Blocks that were read, whether they were fetched one by one or in batches. */
  protected val blocksFetched = new LongAdder

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  protected def start(memory: String = "128MiB"): DaemonProcess = {
    daemons += DaemonProcess.start(
      new File(directory.toFile, s"daemon${daemons.size}"),
      memory = memory)
    daemons.last
  }

  protected def inMode(mode: String): Seq[(String, String)] = Seq(
    "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
    "spark.lodestone.mode" -> mode,
    "spark.lodestone.request.timeout" -> "500ms",
    "spark.lodestone.services" -> daemons.map(_.hostPort).mkString(","))

  protected def withSql[T](settings: (String, String)*)(job: SparkSession => T): T = {
    val conf = LocalSpark.conf("encoded-jobs", master = "local[2, 4]")
      .set("spark.local.dir", new File(directory.toFile, "local").getPath)
      .set("spark.sql.shuffle.partitions", "7")
      .set("spark.sql.adaptive.enabled", "false")
      .setAll(settings)
    val spark = SparkSession.builder().config(conf).getOrCreate()
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
        end.reason match {
          case failed: FetchFailed =>
            failedReads.increment()
            failures.add(failed.message)
          case _ =>
        }
        Option(end.taskMetrics).foreach { task =>
          written.add(task.shuffleWriteMetrics.bytesWritten)
          mergedChunks.add(task.shuffleReadMetrics.remoteMergedChunksFetched)
          blocksFetched.add(task.shuffleReadMetrics.totalBlocksFetched)
        }
      }
    })
    // Stopping drains the listeners' queue, so the sums are complete afterwards.
    try job(spark)
    finally spark.stop()
  }

  /** Columns of all kinds, half of them often null, and one row that no row group holds. */
  protected def everything(spark: SparkSession): RDD[Row] = spark.range(0, 20000, 1, 4).selectExpr(
    "id % 13 as k",
    "id",
    "cast(id % 3 as int) as few",
    "if(id % 5 = 0, null, concat('customer ', id % 100)) as name",
    "if(id = 4711, repeat('large', 40000), '') as seldom",
    "if(id % 7 = 0, null, cast(id * 1.5 as decimal(38, 10))) as wide",
    "cast(id as decimal(12, 2)) as price",
    "if(id % 2 = 0, null, array(id, id + 1)) as list",
    "map('of', id % 4) as pairs",
    "struct(id % 9 as a, if(id % 3 = 0, null, 'inner') as b) as nested",
    "if(id % 3 = 0, null, make_interval(0, cast(id % 12 as int))) as duration",
    "cast(null as string) as nothing",
    "id % 2 = 0 as flag",
    "sqrt(id) as root").repartition(7).rdd

  protected def rowsOf(job: SparkSession => RDD[Row])(spark: SparkSession): Seq[String] =
    job(spark).map(_.toString).collect().sorted.toSeq

  /** The rows of [[everything]], as plain Spark has them. No test changes them. */
  protected def plainRows: Seq[String] =
    plain.rows.getOrElseUpdate("all", withSql()(rowsOf(everything)))

  protected def plainBytes(settings: (String, String)*): Long =
    plain.bytes.getOrElseUpdate(settings, bytesOf(settings: _*))

  protected def bytesOf(settings: (String, String)*): Long = {
    val expected = plainRows
    written.reset()
    assertEquals(expected, withSql(settings: _*)(rowsOf(everything)))
    if (settings.exists(_._1 == "spark.shuffle.manager"))
      assertReported(settings.exists(_._1 == "spark.io.encryption.enabled"))
    written.sum()
  }

  /** The report has the bytes of encoded rows, and the sum is what all tasks have written. */
  private def assertReported(isEncrypted: Boolean): Unit =
    if (shuffles.exists(_.get("format").asText == BlockFormat.EncodedRows.name)) {
      val bytes =
        Seq("rowBytes", "encodedBytes", "compressedBytes").map(report.get("totals").get(_).asLong)
      // Each encrypted block begins with its initialisation vector.
      val vectors = written.sum() - bytes.last
      assertTrue(if (isEncrypted) vectors > 0 && vectors % 16 == 0 else vectors == 0, s"$vectors")
      assertEquals(bytes.sorted.reverse, bytes)
      assertTrue(bytes.head > 2 * bytes.last, s"$bytes")
    }

  /** Reads a shuffle once, changes something, and reads it again. */
  protected def readAgainAfter(settings: (String, String)*)(happens: => Unit): Unit = {
    val expected = plainRows
    val found = withSql(settings: _*) { spark =>
      val rows = everything(spark)
      rows.count()
      happens
      rowsOf(_ => rows)(spark)
    }
    assertEquals(expected, found)
    assertTrue(failedReads.sum() > 0, "nothing was lost")
  }

  protected def damageOutputs(): Unit = {
    assertTrue(outputs.nonEmpty, "there are no map outputs")
    DamagedFile(outputs.head)
  }

  /** Reads the executors' own outputs, when the service is dead. */
  protected def assertOriginalsRead(settings: (String, String)*): Unit = {
    val daemon = start()
    val expected = plainRows
    val found = withSql(inMode("merge") ++ settings: _*) { spark =>
      val rows = everything(spark)
      assertEquals(expected.size, rows.count())
      assertTrue(LodestoneReport.awaitQuiet(10000))
      daemon.kill()
      rowsOf(_ => rows)(spark)
    }
    assertEquals(expected, found)
    assertEquals(0, failedReads.sum())
  }

  /** The map outputs that executors keep. */
  protected def outputs: Seq[File] = {
    val local = new File(directory.toFile, "local").toPath
    val files = Files.walk(local)
    try {
      files.filter(_.getFileName.toString.matches("shuffle_.*data")).toArray.toSeq
        .map(_.asInstanceOf[Path].toFile)
    } finally {
      files.close()
    }
  }

  /** The report of the last application. */
  protected def report: JsonNode = new ObjectMapper().readTree(LodestoneReport.json())

  protected def shuffles: Seq[JsonNode] = {
    val all = report.get("shuffles")
    (0 until all.size).map(all.get)
  }

  /** The formats of the shuffles with several maps. */
  protected def formats: Seq[String] =
    shuffles.filter(_.get("maps").asInt > 1).map(_.get("format").asText)
}

private object EncodedJobs {

  /** What plain Spark gives, for all suites of a JVM. */
  private object plain {
    val rows: TrieMap[String, Seq[String]] = TrieMap.empty
    val bytes: TrieMap[Seq[(String, String)], Long] = TrieMap.empty
  }
}
