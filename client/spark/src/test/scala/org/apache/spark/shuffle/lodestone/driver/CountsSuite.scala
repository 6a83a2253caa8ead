// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.CountDownLatch

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, GetCounts, MapCounted, Reason}
import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs

/** Numbers of records over Spark's RPC. */
class CountsSuite extends DriverHarness {

  private def send(shuffleId: Int, mapIndex: Int, records: Long*): Unit =
    send(MapCounted(shuffleId, mapIndex, mapIndex + 1000L, PackedLongs(records.toArray)))

  /** By map id. */
  private def known(shuffleId: Int): Map[Long, Seq[Long]] = {
    val answer = await(ask[CountedMaps](GetCounts(shuffleId, 0, Int.MaxValue, 0, Int.MaxValue)))
    (0 until answer.mapIds.length).map { row =>
      answer.mapIds(row) -> (0 until answer.endPartition).map(p => answer.in(row, p, p + 1))
    }.toMap
  }

  @Test def `counts that map tasks sent are returned later`(): Unit = {
    val coordinator = driver(Nil)
    coordinator.registered(1, numMaps = 2, numPartitions = 3)
    coordinator.leftToSpark(2, numMaps = 2, numPartitions = 3, Reason.FewBlocks)
    coordinator.leftToSpark(3, numMaps = 2, numPartitions = 3, Reason.BarrierStage)
    for (shuffleId <- 1 to 3; mapIndex <- 0 to 1) send(shuffleId, mapIndex, 5, 0, 7L + mapIndex)
    val counted = Map(1000L -> Seq(5L, 0L, 7L), 1001L -> Seq(5L, 0L, 8L))
    assertEquals(Seq(counted, counted, Map.empty), (1 to 3).map(known))
    coordinator.removed(1)
    coordinator.removed(2)
    assertEquals(Seq(Map.empty, Map.empty), (1 to 2).map(known))
  }

  @Test def `reports that wait for a busy driver are limited in bytes as well`(): Unit = {
    val loop = new EventLoop
    try {
      val busy = new CountDownLatch(1)
      val done = new CountDownLatch(3)
      loop.post(busy.await())
      val mib = 1L << 20
      assertTrue(loop.offer(60 * mib)(() => done.countDown()))
      assertFalse(loop.offer(5 * mib)(() => done.countDown()))
      assertTrue(loop.offer(4 * mib)(() => done.countDown()))
      assertTrue(loop.offer(() => done.countDown()))
      busy.countDown()
      done.await()
      assertTrue(loop.offer(60 * mib)(() => ()))
    } finally {
      loop.stop()
    }
  }
}
