// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.{File, RandomAccessFile}
import java.nio.file.Path
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.LongAdder

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.commons.io.FileUtils
import org.junit.jupiter.api.{AfterEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertThrows, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{FetchFailed, HashPartitioner, ShuffleDependency}
import org.apache.spark.{SparkConf, SparkContext, SparkException}
import org.apache.spark.rdd.ShuffledRDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.lodestone.executor.fetch.{DoublingRowsCodec, DoublingSerializer}
import org.apache.spark.shuffle.lodestone.executor.fetch.{MapRangeRDD, ReadRange}
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.sort.SortShuffleManager
import org.apache.spark.sql.SparkSession

/**
 * Whole jobs whose map outputs were never pushed, and have other records than their map tasks
 * counted. Without the check these jobs would give wrong answers.
 */
@Tag("seldom")
final class CountedOriginalsSuite {
  @TempDir var directory: Path = _

  private val failedReads = new ConcurrentLinkedQueue[FetchFailed]()
  private val blocksFetched = new LongAdder

  @AfterEach def disarm(): Unit = {
    DoublingSerializer.armed.set(false)
    DoublingSerializer.stuck.set(false)
    DoublingRowsCodec.rowBytes.set(0)
  }

  private val auto = Seq("spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName)

  private val withoutService =
    auto ++ Seq("spark.lodestone.mode" -> "merge", "spark.lodestone.services" -> "127.0.0.1:1")

  private def confOf(settings: Seq[(String, String)]): SparkConf =
    LocalSpark.conf("counted-originals")
      .set("spark.local.dir", directory.toString)
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .setAll(settings)

  private def listen(spark: SparkContext): Unit = {
    failedReads.clear()
    blocksFetched.reset()
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
        end.reason match {
          // Other tasks may not find map outputs that are being written again.
          case failure: FetchFailed if failure.bmAddress != null => failedReads.add(failure)
          case _ =>
        }
        // A task that failed may have none.
        Option(end.taskMetrics).foreach { metrics =>
          blocksFetched.add(metrics.shuffleReadMetrics.totalBlocksFetched)
        }
      }
    })
  }

  /** Stopping drains the listeners' queue. */
  private def withSpark[T](settings: Seq[(String, String)])(job: SparkContext => T): T = {
    val spark = new SparkContext(confOf(settings))
    listen(spark)
    try job(spark)
    finally spark.stop()
  }

  /** Half of the records are in one partition, and the first one of each map is among them. */
  private def rows(spark: SparkContext) =
    spark.parallelize(0 until 20000, 5).map(x => (if (x % 2 == 0) 0 else x % 997, x))

  private def shuffled(spark: SparkContext): Seq[(Int, Int)] =
    new ShuffledRDD[Int, Int, Int](rows(spark), new HashPartitioner(8))
      .setSerializer(new DoublingSerializer(spark.getConf))
      .collect()
      .sorted
      .toSeq

  private val expected: Seq[(Int, Int)] =
    (0 until 20000).map(x => (if (x % 2 == 0) 0 else x % 997, x)).sorted

  private def reasons: Map[String, Long] = {
    val found = new ObjectMapper().readTree(LodestoneReport.json()).at("/totals/reasons")
    Reason.all.map(reason => reason.code -> found.path(reason.code).asLong).filter(_._2 > 0).toMap
  }

  private def assertRows[T](wanted: Seq[T], found: Seq[T]): Unit = {
    assertEquals(wanted.size, found.size)
    assertTrue(wanted == found, "other rows")
  }

  private def assertOneMapWasRunAgain(): Unit = {
    assertFalse(DoublingSerializer.armed.get, "no record was doubled")
    assertEquals(1, failedReads.size, s"$failedReads")
    val failure = failedReads.peek()
    assertTrue(failure.mapIndex >= 0 && failure.mapId >= 0, s"$failure")
    assertEquals(1L, reasons.getOrElse(Reason.OriginalMismatch.code, 0L), LodestoneReport.json())
  }

  /** The check finds doubled rows, and finds nothing if no row is doubled. */
  private def assertFound(settings: Seq[(String, String)]): Unit = {
    assertRows(expected, withSpark(settings)(shuffled))
    assertTrue(failedReads.isEmpty)
    val whenRight = reasons
    assertEquals(None, whenRight.get(Reason.RecordsUnchecked.code))
    DoublingSerializer.armed.set(true)
    assertRows(expected, withSpark(settings)(shuffled))
    assertOneMapWasRunAgain()
  }

  @Test def `a wrong map output of a shuffle that is left to Spark is written again`(): Unit = {
    assertFound(auto)
    assertTrue(reasons.contains(Reason.FewBlocks.code), s"$reasons")
  }

  @Test def `a wrong map output that no service could take is written again`(): Unit =
    assertFound(withoutService)

  @Test def `a wrong block that is too large to be pushed is written again`(): Unit = {
    val daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    try {
      assertFound(
        auto ++ Seq(
          "spark.lodestone.mode" -> "merge",
          "spark.lodestone.services" -> daemon.hostPort,
          "spark.shuffle.compress" -> "false",
          "spark.lodestone.push.maxBlockSize" -> "6k"))
      assertTrue(reasons.contains(Reason.BlockTooLarge.code), s"$reasons")
      assertTrue(LodestoneReport.json().contains("\"merged\":1"), LodestoneReport.json())
    } finally {
      daemon.stop()
    }
  }

  private def inBatches(spark: SparkContext): Seq[(Int, Int)] = {
    spark.setLocalProperty(SortShuffleManager.FETCH_SHUFFLE_BLOCKS_IN_BATCH_ENABLED_KEY, "true")
    val shuffle = new ShuffleDependency[Int, Int, Int](
      rows(spark),
      new HashPartitioner(8),
      new DoublingSerializer(spark.getConf))
    val ranges = Seq(ReadRange(0, Int.MaxValue, 0, 3), ReadRange(0, Int.MaxValue, 3, 8))
    new MapRangeRDD(shuffle, ranges).collect().sorted.toSeq
  }

  @Test def `one block of several partitions is counted as well`(): Unit =
    Seq(auto, withoutService).foreach { settings =>
      assertRows(expected, withSpark(settings)(inBatches))
      // Two tasks, and five maps.
      assertEquals(10, blocksFetched.sum())
      DoublingSerializer.armed.set(true)
      assertRows(expected, withSpark(settings)(inBatches))
      assertOneMapWasRunAgain()
    }

  @Test def `a part of the maps of a partition is counted as well`(): Unit = {
    val ranges = Seq(ReadRange(0, 2, 0, 8), ReadRange(2, 5, 0, 1), ReadRange(2, 5, 1, 8))
    def job(spark: SparkContext): Seq[(Int, Int)] = {
      val serializer = new DoublingSerializer(spark.getConf)
      val shuffle =
        new ShuffleDependency[Int, Int, Int](rows(spark), new HashPartitioner(8), serializer)
      new MapRangeRDD(shuffle, ranges).collect().sorted.toSeq
    }
    Seq(auto, withoutService).foreach { settings =>
      DoublingSerializer.armed.set(true)
      assertRows(expected, withSpark(settings)(job))
      assertOneMapWasRunAgain()
    }
  }

  @Test def `rows of SQL in coalesced partitions are counted as well`(): Unit = {
    val sql = Seq(
      "spark.io.compression.codec" -> classOf[DoublingRowsCodec].getName,
      // The stream that is wrong is the first one of a shuffle.
      "spark.broadcast.compress" -> "false",
      "spark.sql.shuffle.partitions" -> "40")
    def job(settings: Seq[(String, String)], armed: Boolean): Seq[String] = {
      val spark = SparkSession.builder().config(confOf(settings ++ sql)).getOrCreate()
      listen(spark.sparkContext)
      try {
        val table = spark.range(0, 5000, 1, 4).selectExpr("id % 977 as k", "id as v")
        // Two columns of eight bytes, a word of nulls, and the size.
        if (armed) DoublingRowsCodec.rowBytes.set(28)
        table.repartition(table("k")).collect().map(_.toString).sorted.toSeq
      } finally {
        spark.stop()
      }
    }
    val plain = job(Nil, armed = false)
    assertEquals(5000, plain.size)
    val plainBlocks = blocksFetched.sum()
    assertEquals(5001, job(Nil, armed = true).size, "nothing was doubled")
    Seq(auto, withoutService).foreach { settings =>
      assertRows(plain, job(settings, armed = false))
      assertEquals(plainBlocks, blocksFetched.sum(), "blocks were not fetched in batches")
      assertTrue(failedReads.isEmpty)
      assertRows(plain, job(settings, armed = true))
      assertOneMapWasRunAgain()
    }
  }

  /** A second job reads the map outputs of the first one. */
  private def assertDamageIsFound(settings: Seq[(String, String)])(
      damage: RandomAccessFile => Unit): Unit = {
    val conf = confOf(settings).set("spark.sql.adaptive.enabled", "false")
    val spark = SparkSession.builder().config(conf).getOrCreate()
    listen(spark.sparkContext)
    try {
      val table = spark.range(0, 50000, 1, 4).selectExpr("id % 977 as k", "id as v")
      val shuffled = table.repartition(7, table("k")).queryExecution.toRdd
      def rows() = shuffled.map(row => (row.getLong(0), row.getLong(1))).collect().sorted.toSeq
      val expected = rows()
      assertEquals(50000, expected.size)
      val output = FileUtils.listFiles(directory.toFile, Array("data"), true).iterator.next()
      val file = new RandomAccessFile(output, "rw")
      try damage(file)
      finally file.close()
      assertRows(expected, rows())
    } finally {
      spark.stop()
    }
    assertEquals(1, failedReads.size, s"$failedReads")
  }

  @Test def `a block of rows in LZ4 that is damaged on the disk is written again`(): Unit =
    Seq(auto, withoutService).foreach { settings =>
      assertDamageIsFound(settings) { file =>
        file.seek(file.length / 2)
        val byte = file.read()
        file.seek(file.length / 2)
        file.write(byte ^ 1)
      }
      assertDamageIsFound(settings)(file => file.setLength(file.length - 10))
    }

  /** Nothing but the reader of the rows notices it: there is no codec with a checksum. */
  @Test def `a block of rows without compression that is cut on the disk is written again`(): Unit =
    Seq(auto, withoutService).foreach { settings =>
      // A row and its size have 28 bytes.
      assertDamageIsFound(settings :+ "spark.shuffle.compress" -> "false") { file =>
        file.setLength(file.length - 10)
      }
      val mismatches = reasons.getOrElse(Reason.OriginalMismatch.code, 0L)
      assertEquals(1L, mismatches, LodestoneReport.json())
    }

  @Test def `a map that is wrong in each attempt ends the job as Spark ends it`(): Unit = {
    DoublingSerializer.stuck.set(true)
    DoublingSerializer.armed.set(true)
    val failure = assertThrows(
      classOf[SparkException],
      () => { withSpark(auto)(shuffled); () })
    assertTrue(failure.getMessage.contains("failed the maximum allowable number of times"))
    assertTrue(failure.getMessage.contains("records where"), failure.getMessage)
  }

  @Test def `outputs that the map side combines are read without a count`(): Unit = {
    def job(spark: SparkContext): Map[Int, Int] =
      rows(spark).reduceByKey(_ max _, 8).collect().toMap
    assertEquals(withSpark(Nil)(job), withSpark(auto)(job))
    assertEquals(Map(Reason.FewBlocks.code -> 1L), reasons)
  }
}
