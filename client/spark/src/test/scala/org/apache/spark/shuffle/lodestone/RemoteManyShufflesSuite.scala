// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path

import org.junit.jupiter.api.{Tag, Test}
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext}
import org.apache.spark.rdd.{CoGroupedRDD, RDD}

/** A stage that reads many shuffles, all of them at one service. */
@Tag("seldom")
final class RemoteManyShufflesSuite {
  @TempDir var directory: Path = _

  private val shuffles = 6

  private def pairs(spark: SparkContext, factor: Int): RDD[(Int, Int)] =
    spark.parallelize(0 until 2000, 2).map(x => (x % 97, x * factor))

  /** The values of each key by shuffle, after `between`, which comes when all maps have run. */
  private def joined(spark: SparkContext)(between: => Unit): Seq[(Int, Seq[Int])] = {
    val partitioner = new HashPartitioner(3)
    val read = (1 to shuffles).map(pairs(spark, _).partitionBy(partitioner))
    read.foreach(_.count())
    between
    new CoGroupedRDD[Int](read, partitioner)
      .mapValues(_.map(_.map(_.asInstanceOf[Int]).sum).toSeq)
      .collect().sortBy(_._1).toSeq
  }

  @Test def `a stage of more shuffles than it may fail outlives the restart of the only service`()
      : Unit = {
    val root = new File(directory.toFile, "daemon")
    var daemon = DaemonProcess.start(root)
    val conf = LocalSpark.conf("many-shuffles", master = "local[2, 4]")
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .set("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
      .set("spark.lodestone.mode", "remote")
      .set("spark.lodestone.services", daemon.hostPort)
    val spark = new SparkContext(conf)
    try {
      val found = joined(spark) {
        val port = daemon.port
        daemon.kill()
        daemon = DaemonProcess.start(root, port)
      }
      val expected = (0 until 97).map { key =>
        val sum = (0 until 2000).filter(_ % 97 == key).sum
        key -> (1 to shuffles).map(_ * sum)
      }
      assertEquals(expected, found)
    } finally {
      spark.stop()
      daemon.stop()
    }
  }
}
