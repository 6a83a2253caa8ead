// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}
import java.util.concurrent.atomic.AtomicReference

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext, SparkEnv, Success}
import org.apache.spark.{TaskEndReason, TaskKilled}
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.ShuffleManager
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameSerializer
import org.apache.spark.util.Utils

/** Jobs of an engine whose blocks are frames, with real daemons. */
private[lodestone] abstract class EngineJobs(manager: Class[_ <: ShuffleManager]) {
  @TempDir var directory: Path = _

  protected val daemons = ArrayBuffer.empty[DaemonProcess]
  protected val nobody = "127.0.0.1:1"

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  protected def start(count: Int = 1, memory: String = "128MiB"): String = {
    for (_ <- 1 to count) {
      val place = new File(directory.toFile, s"daemon${daemons.size}")
      daemons += DaemonProcess.start(place, memory = memory)
    }
    daemons.map(_.hostPort).mkString(",")
  }

  protected def withSpark[T](mode: String, services: String, settings: (String, String)*)(
      job: SparkContext => T): T = {
    val conf = LocalSpark.conf("engine-jobs", master = "local[2, 4]")
      .set("spark.local.dir", local.getPath)
      .set("spark.lodestone.request.timeout", "500ms")
      .set("spark.shuffle.manager", manager.getName)
      .set("spark.lodestone.mode", mode)
      .set("spark.lodestone.services", services)
      .setAll(settings)
    val spark = new SparkContext(conf)
    try job(spark)
    finally spark.stop()
  }

  /**
   * For shuffles with outputs at services and on executors. In local mode tasks that prefer one of
   * the two never start, unless both have the same host.
   */
  protected def ownHost: (String, String) =
    "spark.driver.host" -> Utils.localCanonicalHostName()

  protected def local: File = new File(directory.toFile, "local")

  protected def report: JsonNode = new ObjectMapper().readTree(LodestoneReport.json())

  protected def reasons: String = report.at("/totals/reasons").toString

  protected def shuffle: JsonNode = report.at("/shuffles/0")

  /** Texts of many sizes, the longest of which has some MiB, and of no letter. */
  protected def texts(spark: SparkContext, maps: Int = 6): RDD[(Int, String)] =
    spark.parallelize(0 until 3000, maps).map { i =>
      val length = if (i % 7 == 0) 0 else if (i == 1234) 3 << 20 else i % 500
      (i % 97, s"$i" + "x" * length)
    }

  protected def shuffled(
      rows: RDD[(Int, String)],
      serializer: Serializer = new FrameSerializer(SparkEnv.get.conf),
      partitions: Int = 8): RDD[String] =
    new ShuffledRDD[Int, String, String](rows, new HashPartitioner(partitions))
      .setSerializer(serializer)
      .asInstanceOf[RDD[(Any, String)]]
      .map(_._2)

  /** All texts by their sizes and hashes. */
  protected def summary(rows: RDD[String]): Seq[(Int, Int)] =
    rows.map(text => (text.length, text.hashCode)).collect().sorted.toSeq

  protected def expected(spark: SparkContext): Seq[(Int, Int)] = summary(texts(spark).map(_._2))

  protected def outputs: Seq[File] = filesIn(local)
    .filter(file => file.getName.startsWith("shuffle_") && file.getName.endsWith(".data"))

  /** Others may remove files meanwhile. */
  private def filesIn(folder: File): Seq[File] =
    Option(folder.listFiles).toSeq.flatten.flatMap { file =>
      if (file.isDirectory) filesIn(file) else Seq(file)
    }

  /** The texts, in the middle of which a map task meets what happens to its text, once. */
  protected def textsMeeting(spark: SparkContext)(event: String => String): RDD[(Int, String)] = {
    EngineJobs.event.set(event)
    texts(spark).mapPartitionsWithIndex { (index, rows) =>
      rows.zipWithIndex.map { case ((key, text), i) =>
        if (index == 1 && i == 300) (key, EngineJobs.meet(text)) else (key, text)
      }
    }
  }

  /** A service is lost after its data was read: the next job writes all outputs once more. */
  protected def assertAllMapsRunAgain(): Unit = {
    withSpark("remote", start(2)) { spark =>
      val read = shuffled(texts(spark))
      val before = summary(read)
      daemons.head.kill()
      assertEquals(before, summary(read))
      LodestoneReport.awaitQuiet(10000)
    }
    assertEquals(1, shuffle.get("generation").asInt, LodestoneReport.json())
  }

  /** Whether it has happened. */
  protected def hasMet: Boolean = EngineJobs.event.get == null

  /** The reasons of ends of tasks, as they come. */
  protected def endsOf(spark: SparkContext): LinkedBlockingQueue[TaskEndReason] = {
    val ends = new LinkedBlockingQueue[TaskEndReason]()
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
        ends.add(end.reason)
        ()
      }
    })
    ends
  }

  /** Tasks that ended before they could be killed have succeeded. */
  protected def assertOneKilled(ends: LinkedBlockingQueue[TaskEndReason]): Unit = {
    var reason = ends.poll(20, TimeUnit.SECONDS)
    while (reason == Success) reason = ends.poll(20, TimeUnit.SECONDS)
    assertTrue(reason.isInstanceOf[TaskKilled], s"$reason")
  }
}

private[lodestone] object EngineJobs {
  private val event = new AtomicReference[String => String]()

  /** Tasks of local mode share this object. */
  private def meet(text: String): String = Option(event.getAndSet(null)).fold(text)(_(text))
}
