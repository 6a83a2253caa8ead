// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.concurrent.{Await, ExecutionContext, Future}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext, TaskContext}

/** A job with many reduce tasks at a time, and many real daemons. */
@Tag("seldom")
final class StripedReadsSuite {
  import StripedReadsSuite._

  @TempDir var directory: Path = _

  private var daemons: Seq[DaemonProcess] = Nil

  @BeforeEach def startDaemons(): Unit = daemons = (0 until Services).map { number =>
    DaemonProcess.start(new File(directory.toFile, s"daemon-$number"), memory = "64MiB")
  }

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  private def conf(mode: String) = LocalSpark.conf("striped-reads", s"local[$TasksAtATime]")
    .set("spark.local.dir", directory.toString)
    .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .set("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
    .set("spark.lodestone.mode", mode)
    .set("spark.lodestone.push.timeout", s"${WaitS}s")
    .set("spark.lodestone.services", daemons.map(_.hostPort).mkString(","))

  /** The services that have sent chunks when the first wave of reduce tasks has read its data. */
  private def servicesOfTheFirstWave(mode: String): Int = {
    readers = new Readers
    val spark = new SparkContext(conf(mode))
    try {
      val rows = spark.parallelize(0 until Partitions * 8, 8).map(row => (row, row))
      val job = Future {
        rows.partitionBy(new HashPartitioner(Partitions)).mapPartitions { read =>
          val count = read.size
          readers.arrive(TaskContext.getPartitionId())
          Iterator(count)
        }.collect().map(_.toLong).sum
      }(ExecutionContext.global)
      assertTrue(readers.all.await(WaitS.toLong, TimeUnit.SECONDS), "the first wave did not read")
      val busy = daemons.count(_.counter("lodestone_fetch_chunks_total") > 0)
      readers.gate.countDown()
      assertEquals(Partitions * 8L, Await.result(job, WaitS.seconds))
      busy
    } finally {
      readers.gate.countDown()
      spark.stop()
    }
  }

  @Test def `a wave of reduce tasks reads from all services in mode merge`(): Unit =
    assertEquals(Services, servicesOfTheFirstWave("merge"), LodestoneReport.json())

  @Test def `a wave of reduce tasks reads from all services in mode remote`(): Unit =
    assertEquals(Services, servicesOfTheFirstWave("remote"))
}

private object StripedReadsSuite {
  val Services = 16
  val Partitions = 2000
  val TasksAtATime = 128
  val WaitS = 120

  /** Tasks of the first wave wait after they have read. */
  final class Readers {
    val all = new CountDownLatch(TasksAtATime)
    val gate = new CountDownLatch(1)

    def arrive(partition: Int): Unit = {
      all.countDown()
      if (partition < TasksAtATime) gate.await()
    }
  }

  /** The tasks run in this JVM, and find it here. */
  @volatile var readers: Readers = _
}
