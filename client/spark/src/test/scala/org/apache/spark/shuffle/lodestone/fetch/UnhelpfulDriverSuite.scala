// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import scala.concurrent.Future

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.{
  HashPartitioner,
  ShuffleDependency,
  SparkConf,
  SparkContext,
  SparkException
}
import org.apache.spark.TaskContext
import org.apache.spark.shuffle.BaseShuffleHandle
import org.apache.spark.shuffle.lodestone.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.{DriverMessage, ShuffleGeneration, SilentDriver}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/** A driver whose endpoint cannot even be looked up. */
final class UnhelpfulDriverSuite {

  @Test def `a reducer whose driver cannot be found reads the originals`(): Unit = {
    val conf = new SparkConf(false)
      .setMaster("local[2]")
      .setAppName("unhelpful-driver")
      .set("spark.ui.enabled", "false")
      .set("spark.driver.host", "127.0.0.1")
      .set("spark.driver.bindAddress", "127.0.0.1")
    val spark = new SparkContext(conf)
    try {
      val rows = spark.parallelize(0 until 100, 2).map(x => (x, x))
      val shuffle = new ShuffleDependency[Int, Int, Int](rows, new HashPartitioner(4))
      assertEquals(100, new DirectReadRDD(shuffle).count())
      val handle = new BaseShuffleHandle(shuffle.shuffleId, shuffle)
      val readers = spark.parallelize(0 until 4, 4).map(UnhelpfulDriverSuite.readerOf(handle, _))
      assertEquals(Seq.fill(4)("originals"), readers.collect().toSeq)
    } finally {
      spark.stop()
    }
  }
}

private object UnhelpfulDriverSuite {

  private final class Unfindable extends SilentDriver {
    override def result(id: ShuffleGeneration): Future[DriverMessage] =
      throw new SparkException("Cannot find endpoint: lodestone")
    override def tell(message: DriverMessage): Unit = ()
  }

  private def readerOf(handle: BaseShuffleHandle[Int, Int, Int], partition: Int): String = {
    val conf = LodestoneConf(new SparkConf(false).set("spark.app.id", "app"))
    val client = ServiceClient(new SparkConf(false).set("spark.app.id", "app"), conf)
    val context = TaskContext.get()
    val range = ReadRange(0, Int.MaxValue, partition, partition + 1)
    try {
      new MergedReads(conf, client, new Unfindable)
        .reader[Int, Int](
          handle,
          range,
          context,
          context.taskMetrics().createTempShuffleReadMetrics())
        .fold("originals")(_.getClass.getName)
    } finally {
      client.close()
    }
  }
}
