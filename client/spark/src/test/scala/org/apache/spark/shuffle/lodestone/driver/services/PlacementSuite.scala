// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.Load

class PlacementSuite {
  private val roomy = Load(Load.Serving, 10, 100, diskFree = 500, diskTotal = 1000, 1, 1)
  private val Gib = 1L << 30

  private def service(host: String, load: Load = roomy): Service = {
    val made = new Service(HostPort(host, 7337))
    made.load = Some(load)
    made
  }

  private def chosen(
      live: Seq[Service],
      partitions: Int,
      near: Set[String] = Set.empty,
      shuffleId: Int = 0,
      replicas: Int = 1,
      areNear: Boolean = false): Seq[String] = {
    val demand = Demand(shuffleId, partitions, 0, replicas, areNear)
    Placement.choose(demand, live, near).map(_.address.host)
  }

  @Test def `a shuffle gets a service for every eight partitions and no more than there are`()
      : Unit = {
    val live = Seq("a", "b", "c").map(service(_))
    assertEquals(Seq(1, 1, 2, 3, 3), Seq(1, 8, 9, 24, 1000).map(chosen(live, _).size))
  }

  @Test def `neighbouring shuffles begin with different services`(): Unit = {
    val live = Seq("a", "b", "c").map(service(_))
    def firsts(partitions: Int, areNear: Boolean) = (0 until 6).map { id =>
      chosen(live, partitions, shuffleId = id, areNear = areNear).head
    }
    assertEquals(Seq("a", "b", "c", "a", "b", "c"), firsts(8, areNear = false))
    assertEquals(Seq("a", "b", "c", "a", "b", "c"), firsts(200, areNear = false))
    assertEquals(Seq("a", "b", "c", "a", "b", "c"), firsts(8, areNear = true))
  }

  @Test def `with near reads the shuffles of a join have the same partitions at the same services`()
      : Unit = {
    val live = Seq("a", "b", "c").map(service(_))
    val orders = (0 until 6).map { id =>
      chosen(live, 200, near = Set("b"), shuffleId = id, areNear = true)
    }
    assertEquals(Seq(Seq("b", "a", "c")), orders.distinct)
  }

  @Test def `small shuffles with two replicas spread over all services of each zone`(): Unit = {
    val live = for (zone <- Seq("a", "b"); number <- 0 until 5) yield {
      val made = service(s"$zone$number")
      made.label = zone
      made
    }
    val picks = (0 until 20).map(id => chosen(live, 8, shuffleId = id, replicas = 2))
    picks.foreach(pick => assertEquals(2, pick.map(_.head).distinct.size, s"$pick"))
    assertEquals(Set(4), picks.flatten.groupBy(identity).values.map(_.size).toSet)
    assertEquals(10, picks.flatten.distinct.size)
  }

  @Test def `one service more in one of two zones leaves no pair of replicas in one zone`()
      : Unit = {
    for (count <- Seq(3, 5, 7, 9)) {
      val live = (0 until count).map { number =>
        inZone(s"${if (number % 2 == 0) "a" else "b"}$number")
      }
      // As many as all numbers of services share evenly.
      val partitions = 1920
      val held = mutable.Map.empty[String, Int].withDefaultValue(0)
      val shuffles = 3 * (count + 1)
      for (id <- 0 until shuffles) {
        val hosts = holdersOf(chosen(live, partitions, shuffleId = id, replicas = 2), partitions)
        hosts.foreach(pair => assertEquals(Set("a", "b"), pair.map(_.take(1)).toSet, s"$pair"))
        val each = hosts.flatten.groupBy(identity).map { case (host, all) => host -> all.size }
        assertEquals(Set(2 * partitions / (count - 1)), each.values.toSet, s"$count, $id")
        each.foreach { case (host, number) => held(host) += number }
      }
      assertEquals(count, held.size, s"each service has parts of some shuffles: $held")
      for (zone <- Seq("a", "b")) {
        val ofZone = held.collect { case (host, number) if host.startsWith(zone) => number }
        assertEquals(1, ofZone.toSet.size, s"the services of a zone take turns: $held")
        assertEquals(partitions * shuffles, ofZone.sum, "a zone has one replica of everything")
      }
    }
  }

  @Test def `near reads use all services of uneven zones, and the same ones for each shuffle`()
      : Unit = {
    val live = Seq("a1", "b1", "a2").map(inZone(_))
    val near = live.map(_.address.host).toSet
    val orders = (0 until 6).map { id =>
      chosen(live, 200, near, shuffleId = id, replicas = 2, areNear = true)
    }
    assertEquals(1, orders.distinct.size, s"$orders")
    assertEquals(near, orders.head.toSet, "no host is without data of the whole application")
  }

  @Test def `the last service of a zone is used although it is short of memory or disk`(): Unit = {
    for (load <- Seq(roomy.copy(memoryUsed = 86), roomy.copy(diskFree = 99))) {
      for (others <- Seq(Seq("a1", "a2"), Seq("a1", "a2", "a3", "a4")); id <- 0 until 4) {
        val live = others.map(inZone(_)) :+ inZone("b1", load)
        val picked = chosen(live, 200, shuffleId = id, replicas = 2)
        assertTrue(picked.contains("b1"), s"both replicas are in zone a: $picked")
        assertEquals(Set("a", "b"), chosen(live, 8, replicas = 2).map(_.take(1)).toSet)
      }
      val spared = Seq(inZone("a1"), inZone("a2"), inZone("b1"), inZone("b2", load))
      assertFalse(chosen(spared, 200, replicas = 2).contains("b2"), "zone b has another one")
      val hosts = Seq(service("x"), service("x"), service("y", load))
      assertTrue(chosen(hosts, 200, replicas = 2).contains("y"), "both replicas are on one host")
    }
  }

  @Test def `a service must have room for all that it gets beside zones that are left out`()
      : Unit = {
    def strained(bytes: Long, hosts: String*) = {
      val half = roomy.copy(diskFree = 20 * Gib, diskTotal = 4000 * Gib)
      val live = hosts.map(inZone(_, half))
      Placement.allStrained(Demand(0, 100, bytes, replicas = 2), live)
    }
    // Each has 16 GiB to spare.
    assertFalse(strained(15 * Gib, "a1", "a2", "b1"))
    assertTrue(strained(17 * Gib, "a1", "a2", "b1"), "b1 gets one replica of everything")
    assertFalse(strained(31 * Gib, "a1", "a2", "b1", "b2"))
    assertTrue(strained(33 * Gib, "a1", "a2", "b1", "b2"), "each gets a half")
    assertTrue(strained(17 * Gib, "a1"))
    assertFalse(strained(15 * Gib, "a1"), "one service has one replica")
  }

  /** A service in the zone that its name begins with. */
  private def inZone(host: String, load: Load = roomy): Service = {
    val made = service(host, load)
    made.label = host.take(1)
    made
  }

  /** The hosts of the replicas of each partition. */
  private def holdersOf(chosen: Seq[String], partitions: Int): Seq[Seq[String]] = {
    val services = chosen.map(ServiceLocation(_, 7337, 1)).toArray
    val plan = ShufflePlan(0, partitions, replicas = 2, Array(services))
    (0 until partitions).map(plan.servicesOf(_).map(_.host))
  }

  @Test def `services beside executors come first`(): Unit = {
    val live = Seq("a", "b", "c", "d").map(service(_))
    assertEquals(Set("c", "d"), chosen(live, 16, near = Set("c", "d", "x")).toSet)
    assertEquals(4, chosen(live, 100, near = Set("c")).size)
  }

  @Test def `a service without room is used only where those with room are too few`(): Unit = {
    val fullMemory = service("memory", roomy.copy(memoryUsed = 86))
    val fullDisk = service("disk", roomy.copy(diskFree = 99))
    val live = Seq(fullMemory, fullDisk, service("a"), service("b"))
    (0 until 4).foreach { id =>
      assertEquals(Set("a", "b"), chosen(live, 16, near = Set("disk"), shuffleId = id).toSet)
    }
    assertEquals(Set("a", "b"), chosen(live, 1000, near = Set("disk", "memory")).toSet)
    val oneLeft = live.take(3)
    assertEquals(Seq("a"), chosen(oneLeft, 1000))
    assertEquals("a", chosen(oneLeft, 8, near = Set("disk"), replicas = 2).head)
    assertEquals(Set("memory", "disk", "a"), chosen(oneLeft, 1000, replicas = 2).toSet)
    assertEquals(2, chosen(live.take(2), 1000).size)
  }

  @Test def `the memory of a part that is full makes a service strained`(): Unit = {
    // A service sends the part that is fuller, with its own limit.
    def strained(used: Long) = {
      val load = roomy.copy(memoryUsed = used << 20, memoryLimit = 16L << 20)
      Placement.allStrained(Demand(0, 100, 0), Seq(service("a", load)))
    }
    assertTrue(strained(15))
    assertFalse(strained(13))
  }

  @Test def `a large disk has room as long as the shuffle fits and some gigabytes remain`()
      : Unit = {
    def left(free: Long, total: Long) =
      Seq(service("a", roomy.copy(diskFree = free, diskTotal = total)))
    def spared(bytes: Long, live: Seq[Service]) = Placement.allStrained(Demand(0, 100, bytes), live)
    assertFalse(spared(10 * Gib, left(20 * Gib, 4000 * Gib)))
    assertTrue(spared(17 * Gib, left(20 * Gib, 4000 * Gib)))
    assertFalse(spared(0, left(4 * Gib, 4000 * Gib)))
    assertFalse(spared(0, left(2 * Gib, 20 * Gib)))
    assertTrue(spared(Gib, left(2 * Gib, 20 * Gib)))
    val half = left(20 * Gib, 4000 * Gib)
    assertFalse(spared(30 * Gib, half ++ half), "each of two services gets half of it")
  }

  @Test def `a service without a known load counts as roomy`(): Unit = {
    val unknown = new Service(HostPort("a", 1))
    val strained = service("b", roomy.copy(diskFree = 0))
    assertEquals(Seq("a"), chosen(Seq(strained, unknown), 8))
  }
}
