// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path
import java.util.concurrent.atomic.LongAdder

import org.example.direct.DirectExchange
import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertThrows, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, ShuffleDependency, SparkContext}
import org.apache.spark.SparkException
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.lodestone.executor.fetch.DirectReadRDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec

/** Readers that fetch map outputs from the location that Spark has, without the shuffle manager. */
final class DirectReadersSuite {
  @TempDir var directory: Path = _

  private var daemon: DaemonProcess = _
  private val mapTasks = new LongAdder

  @BeforeEach def startDaemon(): Unit =
    daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))

  @AfterEach def stopDaemon(): Unit = daemon.stop()

  private def inMode[T](mode: String, settings: (String, String)*)(job: SparkContext => T): T = {
    val conf = LocalSpark.conf("direct-readers", master = "local[2, 4]")
      .set("spark.local.dir", new File(directory.toFile, "local").getPath)
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      // A host that does not exist does not appear within five seconds.
      .set("spark.shuffle.io.maxRetries", "0")
      .set("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
      .set("spark.lodestone.mode", mode)
      .set("spark.lodestone.services", daemon.hostPort)
      .setAll(settings)
    val spark = new SparkContext(conf)
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        if (end.taskType == "ShuffleMapTask") mapTasks.increment()
    })
    try job(spark)
    finally spark.stop()
  }

  private def pairs(spark: SparkContext): RDD[(Int, Int)] =
    spark.parallelize(0 until 20000, 6).map(x => (x % 997, x))

  private def direct(spark: SparkContext): Seq[(Int, Int)] = {
    val shuffle = new ShuffleDependency[Int, Int, Int](pairs(spark), new HashPartitioner(40))
    new DirectReadRDD(shuffle, (key, value) => (key.asInstanceOf[Int], value.asInstanceOf[Int]))
      .collect()
      .sorted
      .toSeq
  }

  private val expected: Seq[(Int, Int)] = (0 until 20000).map(x => (x % 997, x)).sorted

  private def tasksSoFar(spark: SparkContext): Long = {
    spark.listenerBus.waitUntilEmpty()
    mapTasks.sum()
  }

  @Test def `in the modes merge and auto they find the originals`(): Unit =
    Seq("merge", "auto").foreach(mode => assertEquals(expected, inMode(mode)(direct)))

  /** It is in the middle of a query of Spark, as in a write of Delta. */
  private def directRows(spark: SparkContext, adaptive: Boolean): Seq[(Long, Long)] = {
    val session =
      SparkSession.builder().config("spark.sql.adaptive.enabled", adaptive).getOrCreate()
    val query = session.range(0, 20000, 1, 6).selectExpr("id % 997 as k", "id").queryExecution
    SQLExecution.withNewExecutionId(query) {
      val rows = DirectExchange(query.executedPlan)(
        new DirectReadRDD[InternalRow](_, (_, row) => row.asInstanceOf[UnsafeRow].copy()))
      rows.map(row => (row.getLong(0), row.getLong(1))).collect().sorted.toSeq
    }
  }

  @Test def `operators with a reader of their own find rows in Spark's format`(): Unit =
    for (mode <- Seq("merge", "auto"); adaptive <- Seq(true, false)) {
      val rows = inMode(mode)(directRows(_, adaptive))
      assertEquals(expected.map { case (k, id) => (k.toLong, id.toLong) }, rows)
      assertTrue(LodestoneReport.json().contains("\"format\":\"spark-stream\""))
      assertFalse(LodestoneReport.json().contains("encoded-rows-1"), LodestoneReport.json())
    }

  /** Nothing tells such an operator from Spark's: Spark has made the exchange for itself. */
  @Test def `a reader that takes an exchange of Spark's gets an error and no row`(): Unit =
    for (codec <- Seq("lz4", "zstd")) inMode("merge", "spark.io.compression.codec" -> codec) {
      spark =>
        val session =
          SparkSession.builder().config("spark.sql.adaptive.enabled", false).getOrCreate()
        val query =
          session.range(0, 2000, 1, 6).selectExpr("id % 97 as k").repartition(4).queryExecution
        assertEquals(2000, query.toRdd.count())
        val dependency =
          query.executedPlan.collectFirst { case one: ShuffleExchangeExec =>
            one
          }.get.shuffleDependency
        val rows = new DirectReadRDD(
          dependency,
          (_, row) => row.asInstanceOf[UnsafeRow].getLong(0))
        assertThrows(classOf[SparkException], () => { rows.collect(); () })
        assertTrue(LodestoneReport.json().contains("encoded-rows-1"), LodestoneReport.json())
    }

  @Test def `in mode remote they fail and no other shuffle of the application does`(): Unit =
    inMode("remote") { spark =>
      val others = new ShuffledRDD[Int, Int, Int](pairs(spark), new HashPartitioner(40))
      assertEquals(20000, others.count())
      val failure = assertThrows(
        classOf[SparkException],
        () => {
          direct(spark)
          ()
        })
      assertTrue(failure.getMessage.contains("lodestone-remote-"), failure.getMessage)
      val before = tasksSoFar(spark)
      assertEquals(expected, others.collect().sorted.toSeq)
      assertEquals(before, tasksSoFar(spark), "maps of another shuffle were run again")
    }
}
