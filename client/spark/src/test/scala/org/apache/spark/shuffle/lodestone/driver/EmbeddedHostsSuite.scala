// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.TimeoutException

import scala.concurrent.Await
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceFound, ServiceMissing}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.{Hello, RegisterShuffle}

@Tag("seldom")
class EmbeddedHostsSuite extends DriverHarness {
  private val id = ShuffleGeneration(6, 0)

  /** In local mode the driver is the only executor. */
  private def host: String = SparkEnv.get.blockManager.blockManagerId.host

  private def found(one: ScriptedService): ServiceFound =
    ServiceFound("driver", host, one.address)

  @Test def `the first plan waits until the host of each executor has announced`(): Unit = {
    val one = service(1)
    start(settings()).registered(6, 2, 20)
    val plan = askPlan(id)
    assertThrows(classOf[TimeoutException], () => { Await.ready(plan, 2.seconds); () })
    send(found(one))
    val (answer, tookMs) = timed(await(plan))
    assertEquals(one.address.toString, answer.asInstanceOf[ShufflePlan].services.head.hostPort)
    assertTrue(tookMs < 5000, s"it took $tookMs ms to see the announcement")
  }

  @Test def `when every host has announced the plan does not wait`(): Unit = {
    val one = service(1)
    val coordinator = start(settings())
    (6 to 9).foreach(coordinator.registered(_, 2, 20))
    send(found(one))
    val tookMs = fastestMs(6 to 9)(shuffleId => planOf(ShuffleGeneration(shuffleId, 0)))
    assertTrue(tookMs < 900, s"the fastest plan took $tookMs ms")
  }

  @Test def `an announced service is connected to before it is needed`(): Unit = {
    val one = service(1)
    start(settings()).registered(6, 2, 20)
    send(found(one))
    one.next(classOf[Hello])
    assertEquals(0, one.count(classOf[RegisterShuffle]))
  }

  @Test def `when no host has a service the shuffle is left to Spark at once`(): Unit = {
    start(settings()).registered(6, 2, 20)
    val plan = askPlan(id)
    send(ServiceMissing("driver", host, "no binary for this platform"))
    val (answer, tookMs) = timed(await(plan))
    assertEquals(noPlan(Reason.NoService), answer)
    assertTrue(tookMs < 5000, s"it took $tookMs ms")
  }

  @Test def `a silent host delays one plan and not the next ones`(): Unit = {
    val coordinator = start(settings())
    coordinator.registered(6, 2, 20)
    assertEquals(noPlan(Reason.NoService), await(askPlan(id)))
    val one = service(1)
    send(ServiceFound("7", "elsewhere", one.address))
    val tookMs = fastestMs(7 to 9) { shuffleId =>
      coordinator.registered(shuffleId, 2, 20)
      val plan = planOf(ShuffleGeneration(shuffleId, 0))
      assertEquals(one.address.toString, plan.services.head.hostPort)
    }
    assertTrue(tookMs < 900, s"the fastest of the later plans took $tookMs ms")
  }
}
