// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.{MapOutputTrackerMaster, SparkEnv}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.functions.expr

/** Adaptive execution of encoded exchanges: it sees the sizes that Spark's format would have. */
@Tag("seldom")
final class EncodedSizesSuite extends EncodedJobs {
  private val keyOff = "spark.lodestone.encodedRows" -> "false"

  private def ordinary(spark: SparkSession): DataFrame = spark.range(0, 200000, 1, 4).selectExpr(
    "id % 1000 as k",
    "id",
    "concat('customer number ', xxhash64(id) % 10000) as name",
    "cast(xxhash64(id, 1) % 100000 as decimal(12, 2)) as price",
    "date_add(date'2026-01-01', cast(id % 2000 as int)) as day",
    "sqrt(id) as root")

  /** Encoded they have a hundredth of the bytes of Spark's format, or less. */
  private def nearlyConstant(spark: SparkSession): DataFrame =
    spark.range(0, 400000, 1, 4).selectExpr(
      "id % 1000 as k" +: "id" +:
        (1 to 12).map(i => s"$i as c$i") :+ "'nothing new' as text": _*)

  private def incompressible(spark: SparkSession): DataFrame =
    spark.range(0, 100000, 1, 4).selectExpr("xxhash64(id) as k", "xxhash64(id, 1) as v")

  private val tables = Seq[(String, SparkSession => DataFrame)](
    ("ordinary rows", ordinary),
    ("nearly constant columns", nearlyConstant),
    ("random numbers", incompressible))

  /** Outputs in files of the executor, with and without a service, and outputs of services. */
  private val cases = Seq("auto" -> "lz4", "remote" -> "lz4", "merge" -> "zstd")

  /** The sizes of all blocks of the only shuffle, as Spark has them. */
  private def sizesOf(partitions: Int, settings: (String, String)*)(
      table: SparkSession => DataFrame): Seq[Seq[Long]] =
    withSql(settings: _*) { spark =>
      val rows = table(spark)
      rows.repartition(partitions, rows("k")).queryExecution.toRdd.count()
      val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
      val statuses = tracker.shuffleStatuses.values.maxBy(_.mapStatuses.length)
      statuses.withMapStatuses { maps =>
        maps.toSeq.map(map => (0 until partitions).map(map.getSizeForBlock))
      }
    }

  private def assertNear(expected: Double, found: Double, what: => String): Unit =
    assertTrue(math.abs(found - expected) <= math.max(1, expected / 4), what)

  private def assertSizes(partitions: Int, cases: Seq[(String, String)])(
      name: String,
      table: SparkSession => DataFrame): Unit =
    for ((codec, modes) <- cases.groupBy(_._2)) {
      val setting = "spark.io.compression.codec" -> codec
      val plain = sizesOf(partitions, setting)(table).flatten
      for ((mode, _) <- modes) {
        val ours = sizesOf(partitions, inMode(mode) :+ setting: _*)(table).flatten
        assertEquals(plain.map(_ > 0), ours.map(_ > 0), "other blocks are empty")
        assertNear(
          plain.sum.toDouble,
          ours.sum.toDouble,
          s"$name, $codec, $partitions partitions, mode $mode: ${ours.sum} bytes, not ${plain.sum}")
      }
    }

  @Test def `blocks have about the sizes of Spark's format`(): Unit = {
    start()
    for ((name, table) <- tables) assertSizes(5, cases)(name, table)
  }

  @Test def `blocks of few rows have about the sizes of Spark's format`(): Unit = {
    start()
    for ((name, table) <- tables)
      assertSizes(300, Seq("auto" -> "lz4", "auto" -> "zstd"))(name, table(_).sample(0.2, 1))
  }

  /** Rows of nulls only have the first partition of 21: Spark's hash of null is 42. */
  private def nullsFirst(spark: SparkSession): DataFrame =
    ordinary(spark).filter("id % 5 < 2").withColumn("k", expr("xxhash64(id) % 1000")).selectExpr(
      Seq("k", "id", "name", "price", "day", "root")
        .map(column => s"if(id % 5 = 0, null, $column) as $column"): _*)

  @Test def `each block of a small output has about the size of Spark's format`(): Unit = {
    start()
    val plain = sizesOf(21)(nullsFirst)
    val ours = sizesOf(21, inMode("auto"): _*)(nullsFirst)
    for ((sizes, map) <- plain.zipWithIndex; (size, partition) <- sizes.zipWithIndex) {
      val found = ours(map)(partition)
      val what = s"$found bytes, not $size, in map $map and partition $partition"
      assertEquals(size > 0, found > 0, what)
      assertTrue(found >= size * 0.7 && found <= size * 1.4 + 64, what)
    }
  }

  /** Bytes of all blocks but the largest one, which has the large row. */
  private def withoutLargest(sizes: Seq[Seq[Long]]): Double =
    (sizes.flatten.sum - sizes.flatten.max).toDouble

  @Test def `one large row does not change the sizes of other blocks`(): Unit = {
    start()
    val random = "concat_ws('', transform(sequence(1, 20000), x -> hex(xxhash64(x))))"
    for ((name, text) <- Seq("random" -> random, "repeated" -> "repeat('large', 60000)")) {
      def table(spark: SparkSession): DataFrame = nearlyConstant(spark)
        .selectExpr("*", s"if(id = 4711, $text, '') as seldom")
      val plain = withoutLargest(sizesOf(20)(table))
      val ours = withoutLargest(sizesOf(20, inMode("auto"): _*)(table))
      assertNear(plain, ours, s"a large $name row: $ours bytes in other blocks, not $plain")
    }
  }

  private def coalesced(settings: (String, String)*)(table: SparkSession => DataFrame): Int = {
    val adaptive = Seq(
      "spark.sql.adaptive.enabled" -> "true",
      "spark.sql.adaptive.coalescePartitions.parallelismFirst" -> "false",
      "spark.sql.adaptive.coalescePartitions.minPartitionSize" -> "16k",
      "spark.sql.adaptive.advisoryPartitionSizeInBytes" -> "200k",
      "spark.sql.shuffle.partitions" -> "200")
    withSql(settings ++ adaptive: _*) { spark =>
      val rows = table(spark)
      rows.repartition(rows("k")).queryExecution.toRdd.getNumPartitions
    }
  }

  @Test def `as many partitions are joined together as with Spark's format`(): Unit = {
    start()
    for ((name, table) <- tables; (mode, codec) <- cases) {
      val settings = inMode(mode) :+ "spark.io.compression.codec" -> codec
      val expected = coalesced(settings :+ keyOff: _*)(table)
      assertTrue(expected > 3 && expected < 190, s"$name: $expected partitions show nothing")
      val found = coalesced(settings: _*)(table)
      assertNear(expected, found, s"$name, $codec, mode $mode: $found partitions, not $expected")
    }
  }
}
