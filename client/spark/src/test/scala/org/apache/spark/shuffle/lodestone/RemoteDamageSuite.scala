// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.charset.StandardCharsets.US_ASCII
import java.nio.file.Path
import java.util.concurrent.atomic.{AtomicInteger, LongAdder}

import com.fasterxml.jackson.databind.ObjectMapper
import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.lodestone.transport.FlakyProxy

/** A remote shuffle of which one row arrives damaged, once, a few times or always. */
@Tag("seldom")
final class RemoteDamageSuite {
  import RemoteDamageSuite._

  @TempDir var directory: Path = _

  private var daemon: DaemonProcess = _
  private val mapTasks = new LongAdder

  /** How often the row was sent. */
  private val sent = new AtomicInteger

  @BeforeEach def start(): Unit =
    daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))

  @AfterEach def stop(): Unit = daemon.stop()

  private def withSpark[T](settings: (String, String)*)(job: SparkContext => T): T = {
    val conf = LocalSpark.conf("remote-damage", master = "local[2, 4]")
      .set("spark.local.dir", new File(directory.toFile, "local").getPath)
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      // The proxy knows the row by its text.
      .set("spark.shuffle.compress", "false")
      .setAll(settings)
    val spark = new SparkContext(conf)
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        if (end.taskType == "ShuffleMapTask") mapTasks.increment()
    })
    try job(spark)
    finally spark.stop()
  }

  private def rows(spark: SparkContext): RDD[(Int, String)] =
    spark.parallelize(0 until 6000, 6)
      .map(i => (i % 97, if (i == 2345) s"$Text, and nowhere else" else s"row $i"))
      .partitionBy(new HashPartitioner(8))

  /** Changes the last byte of the text, wherever it comes in what a connection brings. */
  private def damage(isDamaged: Int => Boolean): (Array[Byte], Int) => Unit = {
    var matched = 0
    (bytes, length) =>
      for (i <- 0 until length) {
        matched =
          if (bytes(i) == pattern(matched)) matched + 1
          else if (bytes(i) == pattern.head) 1
          else 0
        if (matched == pattern.length) {
          matched = 0
          if (isDamaged(sent.incrementAndGet())) bytes(i) = (bytes(i) ^ 1).toByte
        }
      }
  }

  /** Compares with plain Spark, and returns the report's reasons. */
  private def reasonsIf(isDamaged: Int => Boolean): String = {
    val expected = withSpark()(rows(_).collect().sorted.toSeq)
    mapTasks.reset()
    val proxy =
      new FlakyProxy(daemon.port, _ => Long.MaxValue, standsStill = false, () => damage(isDamaged))
    try {
      val found = withSpark(
        "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
        "spark.lodestone.mode" -> "remote",
        "spark.lodestone.services" -> s"127.0.0.1:${proxy.port}") { spark =>
        rows(spark).collect().sorted.toSeq
      }
      assertEquals(expected, found)
    } finally proxy.close()
    new ObjectMapper().readTree(LodestoneReport.json()).at("/totals/reasons").toString
  }

  @Test def `a chunk that comes damaged is fetched again, and no map is run again`(): Unit = {
    assertEquals("{}", reasonsIf(_ == 1))
    assertEquals((2, 6), (sent.get, mapTasks.intValue))
  }

  @Test def `a chunk that comes damaged several times is fetched again and again`(): Unit = {
    assertEquals("{}", reasonsIf(_ <= 3))
    assertEquals((4, 6), (sent.get, mapTasks.intValue))
  }

  @Test def `a chunk that is damaged each time has all maps run again`(): Unit = {
    val reasons = reasonsIf(_ => true)
    assertTrue(reasons.contains(Reason.ChunkCorrupt.code), reasons)
    assertTrue(sent.get > 2, s"it was sent ${sent.get} times")
    assertEquals(12, mapTasks.intValue)
  }
}

private object RemoteDamageSuite {
  private val Text = "~only here"
  private val pattern = Text.getBytes(US_ASCII)
}
