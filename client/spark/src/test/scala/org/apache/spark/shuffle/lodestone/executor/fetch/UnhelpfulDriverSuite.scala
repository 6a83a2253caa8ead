// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.ConcurrentLinkedQueue

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
import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, DriverMessage, GetCounts, GetReadPlan}
import org.apache.spark.shuffle.lodestone.plan.{LocalHandle, PlanAnswer, Reason, TaskRead}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/** A driver whose endpoint cannot even be looked up. */
final class UnhelpfulDriverSuite {

  private def withShuffle(job: (SparkContext, LocalHandle[Int, Int, Int]) => Unit): Unit = {
    val conf = LocalSpark.conf("unhelpful-driver")
    val spark = new SparkContext(conf)
    try {
      val rows = spark.parallelize(0 until 100, 2).map(x => (x, x))
      val shuffle = new ShuffleDependency[Int, Int, Int](rows, new HashPartitioner(4))
      assertEquals(
        100,
        new DirectReadRDD(
          shuffle,
          (key, value) => (key.asInstanceOf[Int], value.asInstanceOf[Int])).count())
      job(spark, new LocalHandle(new BaseShuffleHandle(shuffle.shuffleId, shuffle), 2))
    } finally {
      spark.stop()
    }
  }

  private val all = (0 until 100).map(x => (x, x))

  @Test def `a reducer whose driver cannot be found reads the originals`(): Unit = {
    withShuffle { (spark, handle) =>
      val tasks = spark.parallelize(0 until 4, 4)
      assertEquals(all, tasks.flatMap(UnhelpfulDriverSuite.read(handle, _)).collect().sorted.toSeq)
    }
  }

  @Test def `a reducer without record counts reads the records and counts them as unchecked`()
      : Unit =
    withShuffle { (spark, handle) =>
      UnhelpfulDriverSuite.reports.clear()
      val tasks = spark.parallelize(0 until 4, 4)
      val read = tasks.flatMap(UnhelpfulDriverSuite.readLocally(handle, _)).collect().sorted.toSeq
      assertEquals(all, read)
      val reports = UnhelpfulDriverSuite.reports.toArray(Array.empty[TaskRead])
      assertEquals(4, reports.length)
      val blocks = reports.map(_.counts.fallbacks(Reason.RecordsUnchecked.code))
      assertEquals(Seq.fill(4)(2L), blocks.toSeq)
    }
}

private object UnhelpfulDriverSuite {

  private final class Unfindable extends SilentDriver {
    override def readPlan(asked: GetReadPlan): Future[PlanAnswer] =
      throw new SparkException("Cannot find endpoint: lodestone")
    override def counts(asked: GetCounts): Future[CountedMaps] =
      throw new SparkException("Cannot find endpoint: lodestone")
    override def send(message: DriverMessage): Unit = message match {
      case report: TaskRead => reports.add(report)
      case _ =>
    }
  }

  /** In local mode tasks and tests have one JVM. */
  private val reports = new ConcurrentLinkedQueue[TaskRead]()

  private def task(partition: Int): ReduceTask = {
    val context = TaskContext.get()
    val metrics = context.taskMetrics().createTempShuffleReadMetrics()
    ReduceTask(ReadRange(0, Int.MaxValue, partition, partition + 1), context, metrics)
  }

  private def readLocally(handle: LocalHandle[Int, Int, Int], partition: Int): Seq[(Int, Int)] = {
    val driver = new Unfindable
    new LocalReads(new WrittenRecords(driver, waitMs = 1000), driver)
      .reader[Int, Int](handle, task(partition))
      .fold(Seq.empty[(Int, Int)])(_.read().map(pair => (pair._1, pair._2)).toVector)
  }

  private def read(handle: LocalHandle[Int, Int, Int], partition: Int): Seq[(Int, Int)] = {
    val conf = LodestoneConf(new SparkConf(false).set("spark.app.id", "app"))
    val client = ServiceClient(new SparkConf(false).set("spark.app.id", "app"), conf)
    val driver = new Unfindable
    try {
      val written = new WrittenRecords(driver, waitMs = 1000)
      new MergedReads(client, driver, new PlanCache(driver), written)
        .reader[Int, Int](handle, task(partition))
        .fold(Seq.empty[(Int, Int)])(_.read().map(pair => (pair._1, pair._2)).toVector)
    } finally {
      client.close()
    }
  }
}
