// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.shuffle.lodestone.driver.plans.Shuffle
import org.apache.spark.shuffle.lodestone.driver.report.ShuffleRecord
import org.apache.spark.shuffle.lodestone.plan.{MapPushed, PushCounts}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.util.SizeEstimator

/**
 * The memory of a shuffle in the driver, without Spark's own: nothing grows with maps x partitions.
 */
class DriverMemorySuite {
  private val services = 20

  private def shuffleOf(maps: Int, partitions: Int, reported: Int): AnyRef = {
    val record = new ShuffleRecord(1, maps, partitions)
    val shuffle = new Shuffle(1, maps, partitions, keepsOriginals = true, replicas = 1)
    shuffle.isBegunBy(ofTask = 0)
    shuffle.beginGeneration()
    val locations = (0 until services).map(n => ServiceLocation(s"service-$n.example", 7337, n))
    shuffle.mayKnow(locations)
    shuffle.assign(locations, areNear = false)
    (0 until reported).foreach { mapIndex =>
      record.counts.add(PushCounts(partitions, 10L * partitions, services, Map.empty))
      shuffle.pushes.report(mapIndex)
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

  @Test def `the message of a map task about its pushes takes less than a kilobyte`(): Unit = {
    val counts = PushCounts(100000, 1L << 40, 20000, Map("BLOCK_TOO_LARGE" -> 7L))
    val message = MapPushed(ShuffleGeneration(1, 0), 9999, 1L << 40, counts)
    val bytes = new JavaSerializer(new SparkConf(false)).newInstance().serialize[Any](message)
    assertTrue(bytes.remaining() < 1024, s"${bytes.remaining()} bytes")
  }

  @Test def `memory grows by a bit for each map and not at all with partitions`(): Unit = {
    val few = bytesOf(1000, 1000, reported = 1000)
    val manyMaps = bytesOf(81000, 1000, reported = 81000)
    val manyPartitions = bytesOf(1000, 100000, reported = 1000)
    assertTrue(manyMaps - few <= 2 * 80000 / 8, s"$few -> $manyMaps bytes")
    assertTrue(manyPartitions - few < 200, s"$few -> $manyPartitions bytes")
  }
}
