// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.LogCapture
import org.apache.spark.shuffle.lodestone.driver.{DriverHarness, ScriptedService}
import org.apache.spark.shuffle.lodestone.driver.ScriptedService.{HangUp, Silence}
import org.apache.spark.shuffle.lodestone.plan.{Reason, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.wire.Hello

/** A rolling update: a service fails and comes back, and the next one goes. */
class ServiceDirectorySuite extends DriverHarness {

  /** The penalty of these services is not over while a test runs: only the driver's clock moves. */
  private def failed(used: ScriptedService*): Unit = {
    used.foreach(_.answering { case _: Hello => HangUp })
    val coordinator = driver(used)
    coordinator.registered(5, 2, 20)
    assertEquals(noPlan(Reason.NoService), await(askPlan(ShuffleGeneration(5, 0))))
    pass(minutes = 1)
    coordinator.registered(6, 2, 20)
  }

  private val next = ShuffleGeneration(6, 0)

  private def portsOfNext(): Seq[Int] = planOf(next).services.toSeq.map(_.port)

  @Test def `a service that is back gets work before its penalty is over`(): Unit = {
    val one = service(1)
    failed(one)
    one.answering(PartialFunction.empty)
    assertEquals(Seq(one.address.port), portsOfNext())
  }

  @Test def `no plan waits for a service that is likely to be dead`(): Unit = {
    val one = service(1)
    failed(one)
    one.answering { case _: Hello => Silence }
    val (answer, tookMs) = timed(await(askPlan(next)))
    assertEquals(noPlan(Reason.NoService), answer)
    assertTrue(tookMs < 5000, s"a plan waited for $tookMs ms")
  }

  @Test def `a service that stays away is in the log once, not at each plan`(): Unit = {
    val said = LogCapture.warnings {
      val one = service(1)
      failed(one)
      one.answering { case _: Hello => HangUp }
      assertEquals(noPlan(Reason.NoService), await(askPlan(next)))
      assertEquals(3, one.seen(classOf[Hello]), "a question, the same once more, and one later")
    }
    assertEquals(1, said.count(_.contains("cannot be used: ")), said.toString)
  }

  @Test def `the first that is back is enough for a plan`(): Unit = {
    val one = service(1)
    val other = service(2)
    failed(one, other)
    one.answering { case _: Hello => Silence }
    other.answering(PartialFunction.empty)
    assertEquals(Seq(other.address.port), portsOfNext())
  }
}
