// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.CountDownLatch

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.network.shuffle.protocol.RemoveShuffleMerge
import org.apache.spark.shuffle.lodestone.LogCapture
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.{Reason, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.{Done, Hello, HelloReply, Refused, RegisterShuffle}
import org.apache.spark.shuffle.lodestone.wire.Status

@Tag("seldom")
class PlannerSuite extends DriverHarness {
  private val id = ShuffleGeneration(3, 0)

  private def refusing(status: Status): Script = { case _: RegisterShuffle =>
    Answer(Refused(status, 7, "scripted"))
  }

  private def hosts(plan: ShufflePlan): Set[String] = plan.services.map(_.hostPort).toSet

  @Test def `a plan names the incarnation of the service that registered`(): Unit = {
    val one = service(77)
    driver(Seq(one)).registered(3, numMaps = 10, numPartitions = 20)
    val plan = planOf(id)
    assertEquals(20, plan.numPartitions)
    assertEquals(Seq(one.address.toString), plan.services.toSeq.map(_.hostPort))
    assertEquals(Seq(77L), plan.services.toSeq.map(_.incarnation))
    val sent = one.next(classOf[RegisterShuffle])
    assertEquals((10, 20, 77L), (sent.numMaps, sent.numPartitions, sent.shuffle.incarnation))
    assertEquals((3, 0), (sent.shuffle.shuffleId, sent.shuffle.generation))
  }

  @Test def `all map tasks wait for one plan and get the same`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(7) { case _: RegisterShuffle => AnswerAfter(gate, Done(7)) }
    driver(Seq(slow)).registered(3, 10, 20)
    val asks = (1 to 20).map(_ => askPlan(id))
    slow.next(classOf[RegisterShuffle])
    assertTrue(asks.forall(!_.isCompleted))
    gate.countDown()
    val plans = asks.map(await(_).asInstanceOf[ShufflePlan])
    assertEquals(1, plans.map(_.services.toSeq).distinct.size)
    assertEquals(planOf(id).services.toSeq, plans.head.services.toSeq)
    assertEquals(0, slow.count(classOf[RegisterShuffle]), "it was registered more than once")
  }

  @Test def `a service that refuses is left out and the others take its part`(): Unit = {
    val willing = service(1)
    val full = scripted(2)(refusing(Status.DiskFull))
    driver(Seq(willing, full)).registered(3, 10, 100)
    assertEquals(Set(willing.address.toString), hosts(planOf(id)))
    assertEquals(1L, reasonCount(Reason.ServiceLeftOut))
  }

  @Test def `a service with a full disk gets no new shuffles and one that forgot us does`()
      : Unit = {
    val full = scripted(1)(refusing(Status.DiskFull))
    val forgetful = scripted(2)(refusing(Status.UnknownApplication))
    val coordinator = driver(Seq(service(3), full, forgetful))
    Seq(3, 4).foreach { shuffleId =>
      coordinator.registered(shuffleId, 10, 100)
      planOf(ShuffleGeneration(shuffleId, 0))
    }
    assertEquals(1, full.count(classOf[RegisterShuffle]))
    assertEquals(2, forgetful.count(classOf[RegisterShuffle]))
  }

  @Test def `when every service refuses the shuffle is left to Spark`(): Unit = {
    val full = scripted(1)(refusing(Status.DiskFull))
    val draining = scripted(2)(refusing(Status.Draining))
    driver(Seq(full, draining)).registered(3, 10, 100)
    assertEquals(noPlan(Reason.ServiceRefused), await(askPlan(id)))
    assertEquals(noPlan(Reason.ServiceRefused), placesOf(id))
  }

  @Test def `when no service answers the shuffle is left to Spark`(): Unit = {
    val gone = service(1)
    gone.close()
    val said = LogCapture.warnings {
      val coordinator = driver(Seq(gone))
      Seq(3, 4).foreach { shuffleId =>
        coordinator.registered(shuffleId, 10, 100)
        val answer = await(askPlan(ShuffleGeneration(shuffleId, 0)))
        assertEquals(noPlan(Reason.NoService), answer)
      }
    }
    // One warning for the user, who would not notice otherwise.
    val warning = said.filter(_.contains("No shuffle service can be used"))
    assertEquals(1, warning.size, said.toString)
    assertTrue(warning.head.contains(gone.address.toString), warning.head)
    assertTrue(warning.head.contains("not merged (NO_SERVICE)"), warning.head)
  }

  @Test def `a service that is draining gets no work`(): Unit = {
    val draining = scripted(1) { case _: Hello =>
      Answer(HelloReply(1, "test", 1, Healthy.copy(state = 1)))
    }
    val willing = service(2)
    driver(Seq(draining, willing)).registered(3, 10, 100)
    assertEquals(Set(willing.address.toString), hosts(planOf(id)))
    assertEquals(0, draining.count(classOf[RegisterShuffle]))
  }

  @Test def `a silent service delays the plan a moment and not for its time-out`(): Unit = {
    val silent = scripted(1) { case _: Hello => Silence }
    val willing = service(2)
    driver(Seq(silent, willing), "spark.lodestone.request.timeout" -> "15s").registered(3, 10, 100)
    val (plan, tookMs) = timed(planOf(id))
    assertEquals(Set(willing.address.toString), hosts(plan))
    assertTrue(tookMs < 8000, s"the plan took $tookMs ms")
  }

  @Test def `a service that accepts after the plan is made removes the shuffle with the others`()
      : Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(1) { case _: RegisterShuffle => AnswerAfter(gate, Done(1)) }
    val willing = service(2)
    val coordinator = driver(Seq(slow, willing), "spark.lodestone.request.timeout" -> "15s")
    coordinator.registered(3, 10, 100)
    val (plan, tookMs) = timed(planOf(id))
    assertEquals(Set(willing.address.toString), hosts(plan))
    assertTrue(tookMs < 8000, s"the plan took $tookMs ms")
    gate.countDown()
    coordinator.removed(3)
    assertEquals(3, slow.next(classOf[RemoveShuffleMerge]).shuffleId)
  }

  @Test def `a service that fell silent after its last answer is left out next time`(): Unit = {
    val silent = service(1)
    val willing = service(2)
    val coordinator = driver(Seq(silent, willing), "spark.lodestone.request.timeout" -> "300ms")
    coordinator.registered(3, 10, 100)
    assertEquals(2, planOf(id).services.length)
    silent.answering { case _ => Silence }
    coordinator.registered(4, 10, 100)
    assertEquals(Set(willing.address.toString), hosts(planOf(ShuffleGeneration(4, 0))))
    silent.answering(PartialFunction.empty)
    coordinator.registered(5, 10, 100)
    assertEquals(Set(willing.address.toString), hosts(planOf(ShuffleGeneration(5, 0))))
  }

  @Test def `a service that answers registration too late is left out`(): Unit = {
    val silent = scripted(1) { case _: RegisterShuffle => Silence }
    val willing = service(2)
    driver(Seq(silent, willing), "spark.lodestone.request.timeout" -> "300ms")
      .registered(3, 10, 100)
    assertEquals(Set(willing.address.toString), hosts(planOf(id)))
  }

  @Test def `every address of a name is a service`(): Unit = {
    val one = service(1)
    val name = s"dns:localhost:${one.address.port}"
    start(settings("spark.lodestone.services" -> name)).registered(3, 10, 100)
    assertEquals(Set(one.address.toString), hosts(planOf(id)))
  }

  @Test def `a name without an address is no service`(): Unit = {
    val name = "dns:no-such-name.invalid:7337"
    start(settings("spark.lodestone.services" -> name)).registered(3, 10, 100)
    assertEquals(noPlan(Reason.NoService), await(askPlan(id)))
  }

  @Test def `small shuffles use few services and spread over all`(): Unit = {
    val services = (1 to 3).map(n => service(n.toLong))
    val coordinator = driver(services)
    val plans = (0 until 6).map { shuffleId =>
      coordinator.registered(shuffleId, 2, 8)
      planOf(ShuffleGeneration(shuffleId, 0))
    }
    assertEquals(Seq.fill(6)(1), plans.map(_.services.length))
    assertEquals(services.map(_.address.toString).toSet, plans.flatMap(hosts).toSet)
    coordinator.registered(9, 2, 9)
    assertEquals(2, planOf(ShuffleGeneration(9, 0)).services.length)
  }

  @Test def `a higher generation takes the place of the older one`(): Unit = {
    val one = service(1)
    driver(Seq(one)).registered(3, 10, 20)
    planOf(ShuffleGeneration(3, 1))
    planOf(ShuffleGeneration(3, 2))
    val removed = one.next(classOf[RemoveShuffleMerge])
    assertEquals((3, 1), (removed.shuffleId, removed.shuffleMergeId))
    assertEquals(2, one.next(classOf[RegisterShuffle]).shuffle.generation)
    val older = ShuffleGeneration(3, 1)
    assertEquals(noPlan(Reason.PushStale), await(askPlan(older)))
  }

  @Test def `a shuffle that is not registered or not any more has no plan`(): Unit = {
    val one = service(1)
    val coordinator = driver(Seq(one))
    assertEquals(noPlan(Reason.UnknownShuffle), await(askPlan(id)))
    coordinator.registered(3, 10, 20)
    planOf(id)
    coordinator.removed(3)
    assertEquals(3, one.next(classOf[RemoveShuffleMerge]).shuffleId)
    assertEquals(noPlan(Reason.UnknownShuffle), await(askPlan(id)))
  }

  @Test def `a shuffle removed while its plan is made leaves nothing on the service`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(7) { case _: RegisterShuffle => AnswerAfter(gate, Done(7)) }
    val coordinator = driver(Seq(slow))
    coordinator.registered(3, 10, 20)
    val waiting = askPlan(id)
    slow.next(classOf[RegisterShuffle])
    coordinator.removed(3)
    assertEquals(noPlan(Reason.UnknownShuffle), await(waiting))
    gate.countDown()
    assertEquals(3, slow.next(classOf[RemoveShuffleMerge]).shuffleId)
  }

  @Test def `a run of the maps has one version of the plan, also if readers left the run before`()
      : Unit = {
    val first = new CountDownLatch(1)
    val second = new CountDownLatch(1)
    val slow = scripted(7) {
      case sent: RegisterShuffle if sent.shuffle.generation == 0 => AnswerAfter(first, Done(7))
      case _: RegisterShuffle => AnswerAfter(second, Done(7))
    }
    driver(Seq(slow), "spark.lodestone.push.timeout" -> "100ms").registered(3, 10, 20)
    val asked = askPlan(id)
    slow.next(classOf[RegisterShuffle])
    assertEquals(noPlan(Reason.PushTooLate), placesOf(id))
    assertEquals(noPlan(Reason.PushTooLate), await(asked))
    val again = ShuffleGeneration(3, 1)
    val next = askPlan(again)
    assertEquals(1, slow.next(classOf[RegisterShuffle]).shuffle.generation)
    first.countDown()
    assertEquals(0, slow.next(classOf[RemoveShuffleMerge]).shuffleMergeId)
    assertFalse(next.isCompleted)
    second.countDown()
    assertEquals(1, await(next).asInstanceOf[ShufflePlan].versions.length)
    assertEquals(1, planOf(again).versions.length)
    assertEquals(0, slow.count(classOf[RegisterShuffle]), "the run was registered twice")
  }
}
