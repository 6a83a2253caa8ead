// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File

import scala.jdk.CollectionConverters._

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.rdd.RDD
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, Reason}
import org.apache.spark.sql.{Row, SparkSession}

/** Queries in the modes merge and auto: executors keep encoded outputs, and services a copy. */
@Tag("seldom")
final class EncodedOriginalsSuite extends EncodedJobs {
  private val encoded = BlockFormat.EncodedRows.name
  private val sparks = BlockFormat.SparkStream.name

  private def reasons: Map[String, Long] = {
    val found = report.at("/totals/reasons")
    Reason.all.map(reason => reason.code -> found.path(reason.code).asLong).filter(_._2 > 0).toMap
  }

  /** Pushes end before the first read, however busy the machine is. */
  private val unhurried =
    Seq("spark.lodestone.push.timeout" -> "2min", "spark.lodestone.request.timeout" -> "30s")

  @Test def `rows of all types are plain Spark's in both modes, in a part of the bytes`(): Unit = {
    start()
    for ((codec, most) <- Seq("lz4" -> 0.6, "zstd" -> 0.8); mode <- Seq("merge", "auto")) {
      val setting = "spark.io.compression.codec" -> codec
      val plain = plainBytes(setting)
      mergedChunks.reset()
      val ours = bytesOf(inMode(mode) ++ unhurried :+ setting: _*)
      assertTrue(ours < plain * most, s"$codec: $ours bytes, and plain Spark wrote $plain")
      assertEquals(Seq(encoded), formats)
      assertEquals(mode == "merge", mergedChunks.sum() > 0)
    }
    assertEquals(0, failedReads.sum())
  }

  @Test def `codecs that are not Lodestone's and the key keep Spark's format`(): Unit = {
    start()
    for ((mode, setting) <- Seq(
        "auto" -> ("spark.io.compression.codec" -> "snappy"),
        "merge" -> ("spark.shuffle.compress" -> "false"),
        "auto" -> ("spark.lodestone.encodedRows" -> "false"),
        "merge" -> ("spark.lodestone.encodedRows" -> "false"))) {
      val plain = plainBytes(setting)
      val ours = bytesOf(inMode(mode) :+ setting: _*)
      assertTrue(ours > plain * 0.9 && ours < plain * 1.1, s"$setting: $ours bytes, not $plain")
      assertEquals(Seq(sparks), formats)
    }
  }

  @Test def `rows without fields are as many as in plain Spark`(): Unit = {
    start()
    for (mode <- Seq("merge", "auto")) {
      val rows = withSql(inMode(mode): _*) { spark =>
        spark.range(0, 30000, 1, 4).selectExpr().repartition(5).rdd.map(_.length).collect()
      }
      assertEquals((30000, 0), (rows.length, rows.sum))
      assertEquals(Seq(encoded), formats)
    }
  }

  /** Two maps of large blocks that cannot be compressed, and four of small ones. */
  private def unevenBlocks(spark: SparkSession): RDD[Row] = {
    def table(rows: Long, maps: Int) = spark.range(0, rows, 1, maps)
      .selectExpr("id", "xxhash64(id, 1) as a", "xxhash64(id, 2) as b", "xxhash64(id, 3) as c")
    table(600000, 2).union(table(1000, 4)).repartition(2).rdd
  }

  @Test def `a task reads large blocks from executors and small ones merged`(): Unit = {
    start()
    def sum(spark: SparkSession): (Long, Long) = unevenBlocks(spark)
      .map(row => (1L, (0 until 4).map(row.getLong(_) & 0xffffff).sum))
      .reduce { case ((count, sum), (one, value)) => (count + one, sum + value) }
    assertEquals(withSql()(sum), withSql(inMode("merge") ++ unhurried: _*)(sum))
    assertEquals(Seq(encoded), formats)
    assertEquals(Set(Reason.BlockTooLarge.code), reasons.keySet)
    assertTrue(mergedChunks.sum() > 0, "nothing was read merged")
    assertTrue(report.at("/totals/originalsRead").asLong >= 4, s"$report")
    assertEquals(0, failedReads.sum())
  }

  @Test def `without their service tasks read the originals`(): Unit =
    assertOriginalsRead()

  @Test def `the map of an original that a disk has damaged is run again`(): Unit = {
    start().kill()
    // With extra memory Spark finds it before a row is read, and asks for no diagnosis.
    for ((mode, atOnce) <- Seq("merge" -> "false", "auto" -> "false", "merge" -> "true")) {
      val extra = "spark.shuffle.detectCorrupt.useExtraMemory" -> atOnce
      failures.clear()
      readAgainAfter(inMode(mode) :+ extra: _*)(damageOutputs())
      val isDiagnosed = failures.asScala.exists(_.contains("DISK_ISSUE"))
      assertEquals(atOnce == "false", isDiagnosed, s"$failures")
    }
  }

  @Test def `maps whose originals are gone are run again`(): Unit = {
    start().kill()
    for (mode <- Seq("merge", "auto"))
      readAgainAfter(inMode(mode): _*)(outputs.foreach(_.delete()))
  }

  @Test def `blocks of coalesced partitions are fetched in batches as in plain Spark`(): Unit = {
    start().kill()
    val adaptive = Seq(
      "spark.sql.adaptive.enabled" -> "true",
      "spark.sql.adaptive.coalescePartitions.parallelismFirst" -> "false",
      "spark.sql.shuffle.partitions" -> "40")
    def sums(spark: SparkSession): Seq[String] = spark.range(0, 5000, 1, 4)
      .selectExpr("id % 977 as k", "id as v").groupBy("k").sum("v").collect().map(_.toString)
      .sorted.toSeq
    val expected = withSql(adaptive: _*)(sums)
    val plain = blocksFetched.sum()
    for (mode <- Seq("merge", "auto")) {
      blocksFetched.reset()
      assertEquals(expected, withSql(inMode(mode) ++ adaptive: _*)(sums))
      assertEquals(plain, blocksFetched.sum(), "blocks were not fetched in batches")
      assertEquals(Seq(encoded), formats)
    }
  }

  private val queries = Seq[(String, SparkSession => Any)](
    "an aggregation" -> (_.sql("select k, sum(v) from t group by k").collect()),
    "an RDD" -> (_.sql("select k, sum(v) from t group by k").rdd.count()),
    "a join" -> (_.sql("select /*+ merge(b) */ count(*) from t a join t b on a.v = b.v").collect()),
    "a broadcast join" -> { spark =>
      spark.sql("select /*+ broadcast(b) */ a.v from t a join " +
        "(select k, sum(v) s from t group by k) b on a.k = b.k").collect()
    },
    "a subquery" -> { spark =>
      spark.sql("select v from t where v > (select avg(s) from " +
        "(select k, sum(v) s from t group by k))").collect()
    },
    "a cached table" -> { spark =>
      val cached = spark.sql("select k, sum(v) s from t group by k").cache()
      cached.count()
      cached.collect()
      cached.unpersist(blocking = true)
    },
    "a table that is written" -> { spark =>
      val made = new File(directory.toFile, "made").getPath
      spark.sql("select k, sum(v) s from t group by k").write.mode("overwrite").parquet(made)
    },
    "rows one by one" -> (_.sql("select * from t distribute by k").toLocalIterator().hasNext))

  @Test def `exchanges of all kinds of queries are encoded, with and without adaptive execution`()
      : Unit = {
    start()
    withSql(inMode("auto"): _*) { spark =>
      spark.range(0, 1000, 1, 4).selectExpr("id % 97 as k", "id as v").createTempView("t")
      // Until its first shuffle, the report is that of the application before.
      spark.table("t").repartition(2).count()
      for (adaptive <- Seq("true", "false"); (name, query) <- queries) {
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        val before = formats.size
        query(spark)
        val made = formats.drop(before)
        assertTrue(made.nonEmpty, s"$name: nothing was shuffled")
        assertEquals(Set(encoded), made.toSet, s"$name, adaptive execution: $adaptive")
      }
    }
  }
}
