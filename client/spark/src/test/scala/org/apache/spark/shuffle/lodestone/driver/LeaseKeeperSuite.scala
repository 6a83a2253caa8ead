// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.shuffle.lodestone.LodestoneReport
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.ShuffleGeneration
import org.apache.spark.shuffle.lodestone.wire.{Done, EndApplication, Hello, LeaseReply, Refused}
import org.apache.spark.shuffle.lodestone.wire.{RegisterShuffle, RenewLease, Status}

@Tag("seldom")
class LeaseKeeperSuite extends DriverHarness {
  private val id = ShuffleGeneration(5, 0)

  /** Asks the driver for its report until it knows this incarnation of the service. */
  private def knownLife(incarnation: String): Unit = {
    val deadline = System.nanoTime() + 10000000000L
    while (!LodestoneReport.json().contains("\"incarnation\":\"" + incarnation + "\"")) {
      assertTrue(System.nanoTime() < deadline, s"$incarnation never showed in the report")
    }
  }

  @Test def `a service in use gets a lease at once and renewals later`(): Unit = {
    val one = service(1)
    driver(Seq(one), "spark.lodestone.lease.ttl" -> "10s").registered(5, 2, 20)
    planOf(id)
    val ((first, second), tookMs) =
      timed((one.next(classOf[RenewLease]), one.next(classOf[RenewLease])))
    assertEquals(Seq(10000L, 10000L), Seq(first.ttlMs, second.ttlMs))
    assertEquals(0L, first.incarnation)
    assertTrue(tookMs >= 2500 && tookMs < 10000, s"renewed after $tookMs ms of 10,000")
  }

  @Test def `the granted time decides when the lease is renewed`(): Unit = {
    val one = scripted(1) { case _: RenewLease => Answer(LeaseReply(1, 10000, Healthy)) }
    driver(Seq(one), "spark.lodestone.lease.ttl" -> "1h").registered(5, 2, 20)
    planOf(id)
    one.next(classOf[RenewLease])
    one.next(classOf[RenewLease])
  }

  @Test def `a restarted service is recorded and planned with its new incarnation`(): Unit = {
    val one = scripted(1) { case _: RenewLease => Answer(LeaseReply(0x22, 10000, Healthy)) }
    val coordinator = driver(Seq(one))
    coordinator.registered(5, 2, 20)
    assertEquals(1L, planOf(id).services.head.incarnation)
    knownLife("0000000000000022")
    one.answering { case _: RegisterShuffle => Answer(Done(0x22)) }
    coordinator.registered(6, 2, 20)
    assertEquals(0x22L, planOf(ShuffleGeneration(6, 0)).services.head.incarnation)
  }

  @Test def `a refusal also shows a restart`(): Unit = {
    val one = scripted(1) { case _: RenewLease =>
      Answer(Refused(Status.UnknownApplication, 0x33, "never seen"))
    }
    val coordinator = driver(Seq(one))
    coordinator.registered(5, 2, 20)
    planOf(id)
    knownLife("0000000000000033")
    coordinator.registered(6, 2, 20)
    assertEquals(0x33L, planOf(ShuffleGeneration(6, 0)).services.head.incarnation)
  }

  @Test def `a lease is renewed later if the service was too busy`()
      : Unit = {
    val one = scripted(1) { case _: RenewLease => Answer(Refused(Status.Overloaded, 1, "busy")) }
    driver(Seq(one), "spark.lodestone.lease.ttl" -> "10s").registered(5, 2, 20)
    planOf(id)
    // Each renewal is sent twice.
    (1 to 3).foreach(_ => one.next(classOf[RenewLease]))
  }

  @Test def `a service that was away for longer than its lease gets renewals again`(): Unit = {
    val one = service(1)
    val settings = Seq("spark.lodestone.lease.ttl" -> "10s", "spark.lodestone.mode" -> "remote")
    driver(Seq(one), settings: _*).registered(5, 2, 20)
    planOf(id)
    one.next(classOf[RenewLease])
    one.answering { case _: RenewLease => HangUp }
    pass(minutes = 1)
    // A renewal is sent twice.
    (1 to 2).foreach(_ => one.next(classOf[RenewLease]))
    one.answering(PartialFunction.empty)
    one.next(classOf[RenewLease])
  }

  @Test def `each service in use gets the end of the application and no other`(): Unit = {
    val used = service(1)
    val unused = scripted(2) { case _: Hello => Answer(Refused(Status.Draining, 2, "")) }
    val coordinator = driver(Seq(used, unused))
    coordinator.registered(5, 2, 20)
    planOf(id)
    coordinator.stop()
    assertEquals(-1, used.next(classOf[EndApplication]).app.attempt)
    assertEquals(0, unused.count(classOf[EndApplication]))
  }

  @Test def `the end of the application does not hang on a silent service`(): Unit = {
    val silent = scripted(1) { case _: EndApplication => Silence }
    val coordinator = driver(Seq(silent))
    coordinator.registered(5, 2, 20)
    planOf(id)
    val (_, tookMs) = timed(coordinator.stop())
    silent.next(classOf[EndApplication])
    assertTrue(tookMs < 5000, s"the driver needed $tookMs ms to stop")
  }
}
