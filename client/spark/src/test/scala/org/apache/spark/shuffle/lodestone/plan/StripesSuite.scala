// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

class StripesSuite {
  private val sizes = for {
    services <- Seq(1, 2, 3, 7, 16, 64)
    partitions <- Seq(1, 2, 8, 9, 63, 200, 1000, 4097, 70000)
  } yield (services, partitions)

  private def groups(services: Int, partitions: Int): Seq[Int] = {
    val stripes = new Stripes(services, partitions)
    (0 until partitions).map(stripes.groupOf)
  }

  @Test def `no service has many more partitions than another`(): Unit =
    for ((services, partitions) <- sizes if partitions >= services) {
      val counts = groups(services, partitions).groupBy(identity).values.map(_.size)
      assertEquals(services, counts.size)
      // Each of its stripes may have one partition more.
      val mean = partitions.toDouble / services
      assertTrue(
        counts.max - counts.min <= math.max(1, mean / 8),
        s"$services of $partitions: $counts")
    }

  @Test def `ranks are all numbers, by service first and then by partition`(): Unit =
    for ((services, partitions) <- sizes) {
      val stripes = new Stripes(services, partitions)
      val byRank = (0 until partitions).map(stripes.partitionAt)
      assertEquals((0 until partitions).sortBy(p => (stripes.groupOf(p), p)), byRank)
      assertEquals(0 until partitions, byRank.map(stripes.rankOf))
    }

  @Test def `a service has a few runs of 8 to 32 neighbours, whatever the size of the shuffle`()
      : Unit =
    for (services <- Seq(2, 3, 7, 16, 64); partitions <- Seq(1024, 10000, 100000, 1000000)) {
      val runs = runLengths(groups(services, partitions))
      // Runs differ by one partition.
      val usual = runs.filter(length => length >= 8 && length <= 33)
      assertEquals(runs.size, usual.size, s"$services of $partitions: ${runs.distinct}")
      assertTrue(runs.size <= services * 64L || runs.max >= 32, s"$services of $partitions")
    }

  private def runLengths(groups: Seq[Int]): Seq[Int] = {
    val ends = groups.indices.filter(i => i + 1 == groups.size || groups(i) != groups(i + 1))
    ends.zip(-1 +: ends).map { case (end, before) => end - before }
  }

  @Test def `the partitions of each service begin at its first rank`(): Unit =
    for ((services, partitions) <- sizes if partitions >= services) {
      val stripes = new Stripes(services, partitions)
      for (service <- 0 until services) {
        assertEquals(service, stripes.groupOf(stripes.partitionAt(stripes.firstRankOf(service))))
      }
    }

  @Test def `reduce tasks that start together read from many services`(): Unit = {
    val first = groups(services = 16, partitions = 2000).take(128)
    assertEquals(16, first.distinct.size)
    val neighbours = groups(services = 16, partitions = 2000).sliding(8).map(_.distinct.size)
    assertTrue(neighbours.forall(_ <= 2), "a coalesced task reads from many services")
  }

  @Test def `with long stripes each service has one run of neighbours`(): Unit =
    for ((services, partitions) <- sizes if partitions >= services) {
      val stripes = new Stripes(services, partitions, areLong = true)
      val runs = runLengths((0 until partitions).map(stripes.groupOf))
      assertEquals(services, runs.size)
      assertTrue(runs.max - runs.min <= 1, s"$services of $partitions: $runs")
      val byRank = (0 until partitions).map(stripes.partitionAt)
      assertEquals((0 until partitions).sortBy(p => (stripes.groupOf(p), p)), byRank)
      assertEquals(0 until partitions, byRank.map(stripes.rankOf))
    }
}
