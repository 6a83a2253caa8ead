// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path
import java.util.{Arrays, SplittableRandom}
import java.util.concurrent.ConcurrentLinkedQueue

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext, Success, TaskEndReason}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}

/** Jobs whose data is at two services, each of which has all of it. */
@Tag("seldom")
final class TwoReplicasSuite {
  import TwoReplicasSuite._

  @TempDir var directory: Path = _

  private var daemons: Seq[DaemonProcess] = Nil
  private val failed = new ConcurrentLinkedQueue[TaskEndReason]()

  @BeforeEach def startDaemons(): Unit = daemons = (0 until 2).map { number =>
    DaemonProcess.start(new File(directory.toFile, s"daemon-$number"), memory = "128MiB")
  }

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  private def withSpark(job: SparkContext => Unit): Unit = {
    val conf = LocalSpark.conf("two-replicas")
      .set("spark.local.dir", directory.toString)
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .set("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
      .set("spark.lodestone.mode", "remote")
      .set("spark.lodestone.replicas", "2")
      .set("spark.lodestone.request.timeout", "500ms")
      .set("spark.lodestone.services", daemons.map(_.hostPort).mkString(","))
    val spark = new SparkContext(conf)
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        if (end.reason != Success) failed.add(end.reason)
    })
    try job(spark)
    finally spark.stop()
  }

  /** Pieces that no codec makes smaller, all in one partition. */
  private def pieces(spark: SparkContext, bytes: Int): RDD[Array[Byte]] =
    spark.parallelize(0 until Maps, Maps)
      .map(map => (0, piece(map, bytes)))
      .partitionBy(new HashPartitioner(1))
      .map(_._2)

  private def summary(read: RDD[Array[Byte]]): Seq[(Int, Int)] =
    inOrder(read).sorted

  private def inOrder(read: RDD[Array[Byte]]): Seq[(Int, Int)] =
    read.map(piece => (piece.length, Arrays.hashCode(piece))).collect().toSeq

  private def expected(bytes: Int): Seq[(Int, Int)] =
    ofMaps(bytes).sorted

  private def ofMaps(bytes: Int): Seq[(Int, Int)] =
    (0 until Maps).map(map => (bytes, Arrays.hashCode(piece(map, bytes))))

  private def sent: Seq[Long] = daemons.map(_.counter("lodestone_fetch_bytes_total"))

  @Test def `a large partition comes half from each replica, and each byte once`(): Unit =
    withSpark { spark =>
      assertEquals(expected(Large), summary(pieces(spark, Large)))
      val all = Large.toLong * Maps
      assertTrue(sent.forall(_ >= all * 2 / 5), s"$sent of $all")
      assertTrue(sent.sum <= all * 11 / 10, s"$sent of $all")
    }

  @Test def `a small partition comes from one replica, in the order of its maps`(): Unit =
    withSpark { spark =>
      assertEquals(ofMaps(Small), inOrder(pieces(spark, Small)))
      assertEquals(1, sent.count(_ > 0), s"$sent")
    }

  @Test def `a replica that is lost costs no row and no task`(): Unit = withSpark { spark =>
    val read = pieces(spark, Large)
    assertEquals(expected(Large), summary(read))
    daemons.head.kill()
    assertEquals(expected(Large), summary(read))
    LodestoneReport.awaitQuiet(10000)
    spark.listenerBus.waitUntilEmpty()
    assertTrue(failed.isEmpty, s"$failed")
  }
}

private object TwoReplicasSuite {
  val Maps = 8
  val Large: Int = 2 << 20
  val Small = 1000

  def piece(map: Int, bytes: Int): Array[Byte] = {
    val random = new SplittableRandom(map.toLong)
    Array.fill(bytes)(random.nextInt().toByte)
  }
}
