// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.util.Random

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.config.HostPort

/** A zone that fails as a whole takes no partition with it that has two replicas. */
final class ZonesSuite {

  private def services(zones: String): Seq[Service] =
    zones.zipWithIndex.map { case (zone, number) =>
      val made = new Service(HostPort(s"host-$number", 7337))
      made.label = zone.toString
      made
    }

  private def chosen(zones: String, count: Int): String =
    Zones.choose(services(zones), count).map(_.zone).mkString

  private def areApart(zones: String): Boolean = Zones.areApart(zones)(_.toString)

  @Test def `neighbours are in different zones where no zone has more than half`(): Unit = {
    assertEquals("abab", chosen("aabb", 4))
    assertEquals("abac", chosen("abac", 4))
    val seed = Random.nextLong()
    val random = new Random(seed)
    for (_ <- 1 to 2000) {
      val zones = Seq.fill(2 + random.nextInt(30))(('a' + random.nextInt(6)).toChar).mkString
      val placed = Zones.apart(zones)(_.toString).mkString
      assertEquals(zones.sorted, placed.sorted, s"seed $seed")
      val largest = zones.groupBy(identity).values.map(_.length).max
      assertEquals(2 * largest <= zones.length, areApart(placed), s"seed $seed: $zones, $placed")
    }
  }

  @Test def `a shuffle that needs few services takes them from different zones`(): Unit = {
    assertEquals("ab", chosen("aaab", 2))
    assertEquals("abab", chosen("aaaabb", 4))
    assertEquals("abab", chosen("aabb", 3), "three could not take turns")
    assertTrue(areApart(chosen("aaabbbccc", 3)))
  }

  @Test def `a zone with more than half of the services leaves out as many as it has too many`()
      : Unit = {
    assertEquals("ab", chosen("aab", 8))
    assertEquals("abab", chosen("ababa", 8))
    assertEquals("abab", chosen("aaaabb", 8), "each has one and a half times the mean")
    assertEquals("abac", chosen("aaabc", 8))
    assertEquals("aaab", chosen("aaab", 8).sorted, "two of four would have twice the mean")
    assertEquals("aaaaabb", chosen("aaaaabb", 8).sorted)
    val seed = Random.nextLong()
    val random = new Random(seed)
    for (_ <- 1 to 2000) {
      val zones = Seq.fill(1 + random.nextInt(30))(('a' + random.nextInt(3)).toChar)
      val spread = chosen(zones.mkString, 30)
      val others = zones.size - zones.groupBy(identity).values.map(_.size).max
      val about = s"seed $seed: ${zones.mkString} became $spread"
      assertEquals(3 * others >= zones.size, areApart(spread), about)
      assertTrue(3 * spread.size >= 2 * zones.size, about)
      assertEquals(zones.distinct.toSet, spread.toSet, about)
    }
  }

  @Test def `services that are all in one zone are used`(): Unit = {
    assertEquals("aaa", chosen("aaa", 3))
    assertEquals("", chosen("", 2))
    assertFalse(areApart("aab"))
  }

  @Test def `services without a zone are on different hosts`(): Unit = {
    val twice = Seq("x", "x", "y", "y").map(host => new Service(HostPort(host, 7337)))
    assertEquals(Seq("x", "y"), Zones.choose(twice, 2).map(_.address.host))
  }

  @Test def `a host with more daemons than others leaves none of them out`(): Unit = {
    val uneven = Seq("x", "x", "y").map(host => new Service(HostPort(host, 7337)))
    assertEquals(3, Zones.choose(uneven, 8).size)
    uneven.take(2).foreach(_.label = "a")
    assertEquals(3, Zones.choose(uneven, 8).size, "the zone of one is not known")
    uneven.drop(2).foreach(_.label = "b")
    assertEquals(2, Zones.choose(uneven, 8).size)
  }
}
