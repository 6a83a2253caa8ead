// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{Partitioner, SparkContext}

/**
 * Users' partitioners that give a key another partition each time they are asked. Spark asks once
 * per record, so such a job works.
 */
final class StatefulPartitionerSuite {
  import StatefulPartitionerSuite._

  @TempDir var directory: Path = _

  private def partitions(settings: Seq[(String, String)]): Seq[Seq[Int]] = {
    val conf = LocalSpark.conf("stateful-partitioner")
      .set("spark.local.dir", directory.toString)
      .setAll(settings)
    val spark = new SparkContext(conf)
    try {
      val rows = spark.parallelize(0 until 100, 3).map(row => (row, row))
      rows.partitionBy(new InTurn(7)).values.glom().collect().map(_.sorted.toSeq).toSeq
    } finally {
      spark.stop()
    }
  }

  private def assertAsPlain(settings: (String, String)*): Unit =
    for (serializer <- Seq("JavaSerializer", "KryoSerializer")) {
      val common = Seq("spark.serializer" -> s"org.apache.spark.serializer.$serializer")
      val ours = "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName
      assertEquals(partitions(common), partitions(common ++ settings :+ ours), serializer)
    }

  @Test def `fills the partitions of plain Spark where shuffles are left to Spark`(): Unit =
    assertAsPlain()

  @Test def `fills the partitions of plain Spark where all blocks are encrypted`(): Unit =
    assertAsPlain("spark.io.encryption.enabled" -> "true")

  @Test def `fills the partitions of plain Spark at services`(): Unit = {
    val daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    try {
      val services = "spark.lodestone.services" -> daemon.hostPort
      assertAsPlain("spark.lodestone.mode" -> "merge", services)
      assertAsPlain("spark.lodestone.mode" -> "remote", services)
    } finally {
      daemon.stop()
    }
  }

  @Test def `fills the partitions of plain Spark where an executor keeps remote outputs`(): Unit =
    assertAsPlain(
      "spark.lodestone.mode" -> "remote",
      "spark.lodestone.services" -> "127.0.0.1:1")
}

private object StatefulPartitionerSuite {
  final class InTurn(override val numPartitions: Int) extends Partitioner {
    private var last = 0

    override def getPartition(key: Any): Int = {
      last = (last + 1) % numPartitions
      last
    }
  }
}
