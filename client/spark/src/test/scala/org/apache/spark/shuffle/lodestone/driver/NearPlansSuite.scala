// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.Assertions.{assertEquals, assertNotEquals}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, PlanAnswer, Reason, ServiceTrouble}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.{Hello, HelloReply}

/**
 * Plans of shuffles whose reduce tasks may get hosts. If all services are beside executors, on two
 * hosts or more, then a task reads from one service, and a service has the same partitions of all
 * shuffles of a join. Otherwise the partitions are spread, because tasks run anywhere.
 */
@Tag("seldom")
class NearPlansSuite extends DriverHarness {

  /** The host of the driver, which is an executor in local mode. */
  private val here = "127.0.0.1"
  private val there = "127.0.0.2"
  private val apart = "127.0.0.3"
  private val partitions = 48

  /** Two shuffles of one join. */
  private val (left, right) = (4, 5)

  private def begin(hosts: Seq[String], hasNearReads: Boolean = true): Unit = {
    val coordinator = driver(hosts.map(serviceOn), "spark.lodestone.mode" -> "remote")
    for (shuffleId <- Seq(left, right))
      coordinator.registered(shuffleId, 10, partitions, hasNearReads = hasNearReads)
  }

  private def plan(shuffleId: Int, trouble: Option[ServiceTrouble] = None): ShufflePlan =
    await(ask[PlanAnswer](GetPlan(shuffleId, 0, trouble = trouble))) match {
      case plan: ShufflePlan => plan
      case other => throw new AssertionError(s"no plan but $other")
    }

  /** The service of each partition in a version of the plan. */
  private def places(plan: ShufflePlan, version: Int = 0): Seq[String] =
    (0 until partitions).map { partition =>
      plan.servicesOf(version, plan.groupOf(version, partition)).head.hostPort
    }

  /** How many groups of neighbours have one service. */
  private def groups(places: Seq[String]): Int =
    1 + places.zip(places.tail).count { case (one, next) => one != next }

  private def assertNear(services: Int): Unit = {
    val found = places(plan(left))
    assertEquals(services, groups(found), s"$found")
    assertEquals(found, places(plan(right)))
  }

  private def assertSpread(services: Int): Unit = {
    val found = places(plan(left))
    assertEquals(services, found.distinct.size)
    assertEquals(true, groups(found) > services, s"$found")
    assertNotEquals(found, places(plan(right)))
  }

  @Test def `beside executors a service has neighbours, and the same of all shuffles`(): Unit = {
    haveExecutorsOn(there)
    begin(Seq(here, there))
    assertNear(services = 2)
  }

  @Test def `executors on a host without a service do not spread the partitions`(): Unit = {
    haveExecutorsOn(there, apart)
    begin(Seq(here, there))
    assertNear(services = 2)
  }

  @Test def `a shuffle whose readers get no hosts is spread`(): Unit = {
    haveExecutorsOn(there)
    begin(Seq(here, there), hasNearReads = false)
    assertSpread(services = 2)
  }

  @Test def `one service with no executor beside it has all spread`(): Unit = {
    haveExecutorsOn(there)
    begin(Seq(here, there, apart))
    assertSpread(services = 3)
  }

  @Test def `the services of one host are spread`(): Unit = {
    begin(Seq(here, here))
    assertSpread(services = 2)
  }

  @Test def `what was pushed stays where readers seek it when a host loses its executor`()
      : Unit = {
    haveExecutorsOn(there)
    begin(Seq(here, there, there))
    val first = plan(left)
    val before = places(first)
    assertEquals(3, groups(before))
    SparkEnv.get.blockManager.master.removeExecutor("reader-1")
    val lost = first.services.last
    val trouble = ServiceTrouble(first.generation, first.newest, lost, Reason.PushDiskFull)
    val second = plan(left, Some(trouble))
    assertEquals((2, 2), (second.versions.length, second.services.length))
    assertEquals(before, places(second))
  }

  /** How many services have a part of two replicas, in these zones, and how often one has both. */
  private def ofReplicas(zones: Seq[String], hasNearReads: Boolean): (Int, Long) = {
    val services = zones.zip(Seq(here, there, apart)).map { case (zone, host) =>
      serviceOn(host).answering { case _: Hello =>
        ScriptedService.Answer(HelloReply(1, "test", 1, ScriptedService.Healthy, zone))
      }
    }
    val two = Seq("spark.lodestone.mode" -> "remote", "spark.lodestone.replicas" -> "2")
    driver(services, two: _*).registered(left, 10, partitions, hasNearReads = hasNearReads)
    val used = plan(left).services.length
    val count = reasonCount(Reason.ReplicasInOneZone)
    stopDriver()
    (used, count)
  }

  @Test def `a service of uneven zones is left out, but none with near reads or of hosts`()
      : Unit = {
    assertEquals((2, 0L), ofReplicas(Seq("a", "a", "b"), hasNearReads = false))
    assertEquals((3, 0L), ofReplicas(Seq("", "", ""), hasNearReads = false))
    haveExecutorsOn(there, apart)
    assertEquals((3, 1L), ofReplicas(Seq("a", "a", "b"), hasNearReads = true))
  }
}
