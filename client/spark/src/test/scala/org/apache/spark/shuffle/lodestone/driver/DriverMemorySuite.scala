// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.transport.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.Ledger
import org.apache.spark.util.SizeEstimator

/** What a shuffle costs the driver beside what Spark itself keeps: nothing grows with M x R. */
class DriverMemorySuite {
  private val services = 20

  private def shuffleOf(maps: Int, partitions: Int, reported: Int): AnyRef = {
    val record = new ShuffleRecord(1, maps, partitions)
    val shuffle = new ShuffleState(1, maps, partitions)
    val generation = new Generation(ShuffleGeneration(1, 0), maps, partitions)
    shuffle.generation = Some(generation)
    val locations = Array.tabulate(services)(n => ServiceLocation(s"service-$n.example", 7337, n))
    generation.plan.decide(MergePlan(partitions, locations))
    (0 until reported).foreach { mapIndex =>
      val acknowledged = (0 until services).map(_ -> Ledger(partitions / services, mapIndex)).toMap
      val counts = PushCounts(partitions, 10L * partitions, services, acknowledged, Map.empty)
      record.counts.add(counts)
      generation.report(mapIndex, mapIndex + 1000L, counts)
    }
    (shuffle, record)
  }

  private def bytesOf(maps: Int, partitions: Int, reported: Int): Long =
    SizeEstimator.estimate(shuffleOf(maps, partitions, reported))

  @Test def `a shuffle of a hundred million blocks takes some kilobytes of the driver`(): Unit = {
    val sizes = Seq(1000, 10000).map(n => n -> bytesOf(n, n, reported = n))
    sizes.foreach { case (n, bytes) => println(s"driver memory of $n x $n blocks: $bytes bytes") }
    sizes.foreach { case (n, bytes) => assertTrue(bytes < 16 * 1024, s"$n x $n: $bytes bytes") }
  }

  @Test def `memory grows by a bit for each map and not at all with partitions`(): Unit = {
    val few = bytesOf(1000, 1000, reported = 1000)
    val manyMaps = bytesOf(81000, 1000, reported = 81000)
    val manyPartitions = bytesOf(1000, 100000, reported = 1000)
    assertTrue(manyMaps - few <= 2 * 80000 / 8, s"$few -> $manyMaps bytes")
    assertTrue(manyPartitions - few < 200, s"$few -> $manyPartitions bytes")
  }
}
