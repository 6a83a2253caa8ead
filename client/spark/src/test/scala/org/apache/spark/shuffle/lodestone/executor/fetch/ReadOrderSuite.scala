// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.File
import java.nio.file.Path

import scala.collection.mutable
import scala.util.Random

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.lodestone.{DaemonProcess, LocalSpark, LodestoneReport}
import org.apache.spark.shuffle.lodestone.LodestoneShuffleManager
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.functions.expr

/**
 * Results that depend on the order of rows are the same in every run. With one executor they equal
 * those of plain Spark, because users' own tests expect them.
 */
@Tag("seldom")
final class ReadOrderSuite {
  @TempDir var directory: Path = _

  private val runs = 2
  private var daemons: Seq[DaemonProcess] = Nil
  @volatile private var chunks = 0L

  @BeforeEach def startDaemons(): Unit =
    daemons = Seq("one", "two").map(name => DaemonProcess.start(new File(directory.toFile, name)))

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  private def withSpark[T](settings: (String, String)*)(job: SparkSession => T): T = {
    val builder = SparkSession
      .builder()
      .config(LocalSpark.conf("order"))
      .config("spark.local.dir", new File(directory.toFile, "local").getPath)
      .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .config("spark.sql.shuffle.partitions", "12")
    settings.foreach { case (key, value) => builder.config(key, value) }
    val spark = builder.getOrCreate()
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = Option(end.taskMetrics).foreach {
        metrics => chunks += metrics.shuffleReadMetrics.remoteMergedChunksFetched
      }
    })
    try job(spark)
    finally spark.stop()
  }

  private def lodestone(mode: String): Seq[(String, String)] = Seq(
    "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
    "spark.lodestone.mode" -> mode,
    "spark.lodestone.services" -> daemons.map(_.hostPort).mkString(","))

  private def rows(maps: Int)(spark: SparkSession): DataFrame =
    spark.range(0, 20000, 1, maps).selectExpr("id % 97 as k", "id as v")

  private def grouped(rows: DataFrame): Seq[Any] =
    rows.groupBy("k").agg(
      expr("collect_list(v)"),
      expr("first(v)"),
      expr("last(v)")).collect().toSeq

  /** Rows as they come: nothing is sorted anywhere. */
  private def sql(maps: Int)(spark: SparkSession): Seq[Any] = {
    val rows = this.rows(maps)(spark)
    val shuffled = rows.repartition(12, rows("k"))
    val ranked = rows.selectExpr(
      "k",
      "v",
      "row_number() over (partition by k order by v % 3) as tie")
    Seq(
      grouped(rows),
      shuffled.limit(50).collect().toSeq,
      shuffled.take(3).toSeq,
      rows.groupBy("k").count().collect().toSeq,
      ranked.collect().toSeq)
  }

  private def rdd(maps: Int)(spark: SparkContext): Seq[Any] = {
    val pairs = spark.parallelize(0 until 20000, maps).map(x => (x % 97, x.toLong))
    val others = pairs.mapValues(-_)
    Seq(
      pairs.groupByKey(8).mapValues(_.toSeq).collect().toSeq,
      pairs.cogroup(others, 8).mapValues { case (l, r) => (l.toSeq, r.toSeq) }.collect().toSeq,
      pairs.partitionBy(new org.apache.spark.HashPartitioner(8)).take(50).toSeq,
      pairs.map { case (k, v) => (k % 3, v) }.sortByKey(numPartitions = 8).collect().toSeq)
  }

  /** Asks plain Spark once for each name of a job and settings. */
  private def assertAlways(settings: Seq[(String, String)], name: String)(
      job: SparkSession => Seq[Any]): Unit = {
    val usual = settings.filterNot(_._1.contains("lodestone")).filterNot(_._1.endsWith(".manager"))
    val expected = ReadOrderSuite.plain.getOrElseUpdate(name -> usual, withSpark(usual: _*)(job))
    chunks = 0
    withSpark(settings: _*) { spark =>
      (1 to runs).foreach { run =>
        val found = job(spark)
        expected.zip(found).zipWithIndex.foreach { case ((one, other), question) =>
          assertEquals(one, other, s"run $run, question $question")
        }
      }
    }
    assertTrue(chunks > 0, "nothing was read merged")
  }

  private val notAdaptive = "spark.sql.adaptive.enabled" -> "false"

  @Test def `rows of SQL come in the order of plain Spark in mode merge`(): Unit =
    assertAlways(lodestone("merge"), "sql")(sql(maps = 10))

  @Test def `rows of SQL come in the order of plain Spark in mode remote`(): Unit =
    assertAlways(lodestone("remote"), "sql")(sql(maps = 10))

  @Test def `each partition by itself is in the order of plain Spark`(): Unit =
    Seq("merge", "remote").foreach { mode =>
      assertAlways(lodestone(mode) :+ notAdaptive, "sql")(sql(maps = 10))
    }

  @Test def `rows of SQL come in the order of plain Spark in mode auto`(): Unit =
    assertAlways(lodestone("auto") :+ ("spark.sql.shuffle.partitions" -> "200"), "many maps")(
      spark =>
        Seq(grouped(rows(maps = 160)(spark))))

  @Test def `records of RDDs come in the order of plain Spark in mode merge`(): Unit =
    assertAlways(lodestone("merge"), "rdd")(spark => rdd(maps = 10)(spark.sparkContext))

  @Test def `records of RDDs come in the order of plain Spark in mode remote`(): Unit =
    assertAlways(lodestone("remote"), "rdd")(spark => rdd(maps = 10)(spark.sparkContext))

  @Test def `segments that come one by one are in order too`(): Unit = {
    val java = "spark.serializer" -> "org.apache.spark.serializer.JavaSerializer"
    assertAlways(lodestone("remote") :+ java, "boxed") { spark =>
      val pairs = spark.sparkContext
        .parallelize(0 until 5000, 10)
        .map(x => ((x % 97, "boxed"), x.toString))
      Seq(pairs.groupByKey(8).mapValues(_.toSeq).collect().toSeq)
    }
  }

  @Test def `rows are in order too where a block stays with the map that wrote it`(): Unit = {
    val small = "spark.lodestone.push.maxBlockSize" -> "8k"
    assertAlways(lodestone("merge") :+ small, "long rows") { spark =>
      // The fourth map writes long rows for the key 5: one of its blocks is large.
      val pairs = spark.sparkContext.parallelize(0 until 20000, 10).map { x =>
        val isLong = x / 2000 == 3 && x % 97 == 5
        (x % 97, new Random(x).alphanumeric.take(if (isLong) 2000 else 2).mkString)
      }
      Seq(pairs.groupByKey(8).mapValues(_.toSeq).collect().toSeq)
    }
    val report = LodestoneReport.json()
    for (reason <- Seq(Reason.BlockTooLarge, Reason.LocalMapRead)) {
      assertTrue(report.contains(s""""${reason.code}""""), s"${reason.code} is not in $report")
    }
  }
}

private object ReadOrderSuite {

  /** Plain Spark's answers. */
  private val plain = mutable.HashMap.empty[(String, Seq[(String, String)]), Seq[Any]]
}
