// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.AtomicBoolean

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkContext}
import org.apache.spark.rdd.ShuffledRDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}

/**
 * The disk fails for a moment, and does not show the file of a partition just when Spark's own
 * writer copies it into the map output. Spark continues without the block.
 */
final class VanishedBlockSuite {
  import VanishedBlockSuite._

  @TempDir var directory: Path = _

  private def rows(settings: (String, String)*): (Seq[Int], Int) = {
    val local = Files.createDirectory(directory.resolve("local"))
    val conf = LocalSpark.conf("vanished", master = "local[1, 4]")
      .set("spark.local.dir", local.toString)
      .set("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
      .setAll(settings)
    armed.set(true)
    val spark = new SparkContext(conf)
    @volatile var failed = 0
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        if (end.reason.toString.contains("bytes with Spark's writer")) failed += 1
    })
    val read =
      try numbers(spark, local.toFile)
      finally {
        spark.stop()
        org.apache.spark.util.Utils.deleteRecursively(local.toFile)
      }
    assertFalse(armed.get, "no file has vanished")
    (read, failed)
  }

  private def numbers(spark: SparkContext, local: File): Seq[Int] = {
    val made = spark.parallelize(0 until 6000, 3).map(n => ((n, "key"), n)).mapPartitions {
      rows => rows ++ ending(local)
    }
    new ShuffledRDD[(Int, String), Int, Int](made, new HashPartitioner(8))
      .values.collect().sorted.toSeq
  }

  private val java = "spark.serializer" -> "org.apache.spark.serializer.JavaSerializer"
  private val all = (0 until 6000, 1)

  @Test def `a block that Spark's writer loses fails its map task, and no row is gone`(): Unit =
    assertEquals(all, rows(java))

  @Test def `also where all blocks are encrypted`(): Unit =
    assertEquals(all, rows("spark.io.encryption.enabled" -> "true"))

  @Test def `also where an executor keeps the outputs of a remote shuffle`(): Unit =
    assertEquals(
      all,
      rows(java, "spark.lodestone.mode" -> "remote", "spark.lodestone.services" -> "127.0.0.1:1"))
}

private object VanishedBlockSuite {
  private val armed = new AtomicBoolean

  /**
   * Adds no row. When the writer asks for it, all other rows are written, and one file disappears.
   */
  private def ending(local: File): Iterator[((Int, String), Int)] =
    new Iterator[((Int, String), Int)] {
      override def hasNext: Boolean = {
        if (armed.getAndSet(false)) {
          val files = Files.walk(local.toPath)
          try {
            files.filter(_.getFileName.toString.startsWith("temp_shuffle_")).findFirst()
              .ifPresent(file => Files.delete(file))
          } finally {
            files.close()
          }
        }
        false
      }
      override def next(): ((Int, String), Int) = throw new NoSuchElementException
    }
}
