// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.util.Properties
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.Future

import org.junit.jupiter.api.{AfterAll, BeforeAll, Test, TestInstance}
import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.TestInstance.Lifecycle

import org.apache.spark._
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleWriter}
import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.SegmentBuffers
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, LodestoneHandle, NoPlan, PlanAnswer}
import org.apache.spark.shuffle.lodestone.plan.{Reason, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.Application

/**
 * Where a map task's output goes, by what the driver says: an executor that keeps one may not
 * leave.
 */
@TestInstance(Lifecycle.PER_CLASS)
final class RemoteWritesSuite {
  private var spark: SparkContext = _

  @BeforeAll def start(): Unit = spark = new SparkContext(
    LocalSpark.conf("remote-writes", master = "local[1]"))

  @AfterAll def stop(): Unit = spark.stop()

  private val plan = Future.successful[PlanAnswer](
    ShufflePlan(0, numPartitions = 4, replicas = 1, Array(Array(SilentDriver.goneService()))))
  private val busy = Future.failed[PlanAnswer](new SparkException("too many events"))

  /** The writers of a map task, for these answers of the driver, one after another. */
  private def writer(answers: Future[PlanAnswer]*): Option[ShuffleWriter[Int, Int]] = {
    val asked = new AtomicInteger
    val driver = new SilentDriver {
      override def plan(what: GetPlan): Future[PlanAnswer] =
        answers(asked.getAndIncrement())
    }
    val app = Application("app", -1)
    val client = new ServiceClient(app, 1000)
    try {
      val conf = LodestoneConf(new SparkConf(false).set("spark.lodestone.mode", "remote"))
      val rows = spark.parallelize(0 until 2, 2).map(x => (x, x))
      val dependency = new ShuffleDependency[Int, Int, Int](rows, new HashPartitioner(4))
      val inner = new BaseShuffleHandle(dependency.shuffleId, dependency)
      val handle = new LodestoneHandle(inner, maps = 2, app, isRemote = true)
      val memory = new TaskMemoryManager(UnifiedMemoryManager(new SparkConf(false), 1), 0)
      val context = new TaskContextImpl(0, 0, 0, 7, 0, 2, memory, new Properties, null)
      val retryPolicy = new RetryPolicy(0, _ => None)
      val buffers = new SegmentBuffers(1 << 20, limitBytes = 1 << 20)
      val plans = new PlanCache(driver)
      val writes = new RemoteWrites(conf, client, driver, plans, buffers, retryPolicy)
      val found = writes.writer[Int, Int](
        handle,
        mapId = 7,
        context,
        context.taskMetrics.shuffleWriteMetrics)
      assertEquals(answers.size, asked.get)
      found
    } finally {
      client.close()
    }
  }

  @Test def `a map task whose driver is merely busy asks again and keeps no output`(): Unit =
    assertTrue(writer(busy, busy, plan).isDefined)

  @Test def `a map task whose driver is busy for long fails and keeps no output`(): Unit = {
    assertThrows(
      classOf[SparkException],
      () => {
        writer(busy, busy, busy)
        ()
      })
    ()
  }

  @Test def `a map task of a shuffle that has no service keeps its output`(): Unit =
    assertTrue(writer(Future.successful(NoPlan(Reason.NoService))).isEmpty)
}
