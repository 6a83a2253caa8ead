// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.{File, RandomAccessFile}
import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.LongAdder

import scala.collection.mutable.ArrayBuffer

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.FetchFailed
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.functions.col

/** Queries in mode remote, whose exchanges are encoded by column. */
final class EncodedJobsSuite {
  @TempDir var directory: Path = _

  private val daemons = ArrayBuffer.empty[DaemonProcess]
  private val written = new LongAdder
  private val failedReads = new LongAdder

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  private def start(): DaemonProcess = {
    daemons += DaemonProcess.start(new File(directory.toFile, s"daemon${daemons.size}"))
    daemons.last
  }

  private def remote: Seq[(String, String)] = Seq(
    "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
    "spark.lodestone.mode" -> "remote",
    "spark.lodestone.request.timeout" -> "500ms",
    "spark.lodestone.services" -> daemons.map(_.hostPort).mkString(","))

  private def withSql[T](settings: (String, String)*)(job: SparkSession => T): T = {
    val conf = LocalSpark.conf("encoded-jobs", master = "local[2, 4]")
      .set("spark.local.dir", new File(directory.toFile, "local").getPath)
      .set("spark.sql.shuffle.partitions", "7")
      .set("spark.sql.adaptive.enabled", "false")
      .setAll(settings)
    val spark = SparkSession.builder().config(conf).getOrCreate()
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
        if (end.reason.isInstanceOf[FetchFailed]) failedReads.increment()
        Option(end.taskMetrics).foreach(task => written.add(task.shuffleWriteMetrics.bytesWritten))
      }
    })
    // Stopping drains the listeners' queue, so the sums are complete afterwards.
    try job(spark)
    finally spark.stop()
  }

  /** Columns of all kinds, half of them often null, and one row that no row group holds. */
  private def everything(spark: SparkSession): RDD[Row] = spark.range(0, 20000, 1, 4).selectExpr(
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

  private def rowsOf(job: SparkSession => RDD[Row])(spark: SparkSession): Seq[String] =
    job(spark).map(_.toString).collect().sorted.toSeq

  private def bytesOf(settings: (String, String)*)(expected: Seq[String]): Long = {
    written.reset()
    assertEquals(expected, withSql(settings: _*)(rowsOf(everything)))
    written.sum()
  }

  @Test def `rows of all types are plain Spark's, in a part of the bytes, with each codec`()
      : Unit = {
    start()
    val expected = withSql()(rowsOf(everything))
    for ((codec, most) <- Seq("lz4" -> 0.6, "zstd" -> 0.8, "snappy" -> 1.1, "lzf" -> 1.1)) {
      val setting = "spark.io.compression.codec" -> codec
      val plain = bytesOf(setting)(expected)
      val ours = bytesOf(remote :+ setting: _*)(expected)
      assertTrue(ours < plain * most, s"$codec: $ours bytes, and plain Spark wrote $plain")
    }
    val none = "spark.shuffle.compress" -> "false"
    bytesOf(remote :+ none: _*)(expected)
    assertEquals(0, failedReads.sum())
  }

  @Test def `with the key off blocks have as many bytes as plain Spark's`(): Unit = {
    start()
    val expected = withSql()(rowsOf(everything))
    val plain = bytesOf()(expected)
    val ours = bytesOf(remote :+ "spark.lodestone.encodedRows" -> "false": _*)(expected)
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
    val expected = withSql()(rowsOf(everything))
    assertEquals(expected, withSql(remote: _*)(rowsOf(everything)))
    assertEquals(0, failedReads.sum())
  }

  /** Reads a shuffle once, changes something, and reads it again. */
  private def readAgainAfter(happens: => Unit): Unit = {
    val expected = withSql()(rowsOf(everything))
    val found = withSql(remote: _*) { spark =>
      val rows = everything(spark)
      rows.count()
      happens
      rowsOf(_ => rows)(spark)
    }
    assertEquals(expected, found)
    assertTrue(failedReads.sum() > 0, "nothing was lost")
  }

  @Test def `after the loss of the only service encoded outputs are made again on executors`()
      : Unit = {
    val daemon = start()
    readAgainAfter(daemon.kill())
  }

  @Test def `the map of an encoded output that an executor's disk has damaged is run again`()
      : Unit = {
    start().kill()
    readAgainAfter(damageOutputs())
  }

  private def damageOutputs(): Unit = {
    val local = new File(directory.toFile, "local").toPath
    val files = Files.walk(local).filter(_.getFileName.toString.matches("shuffle_.*data")).toArray
    assertTrue(files.nonEmpty, "there are no map outputs")
    val first = new RandomAccessFile(files.head.asInstanceOf[Path].toFile, "rw")
    try {
      first.seek(first.length / 2)
      val byte = first.read()
      first.seek(first.length / 2)
      first.write(byte ^ 0x10)
    } finally {
      first.close()
    }
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
