// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.CountDownLatch

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.{MapOutputTrackerMaster, SparkEnv}
import org.apache.spark.network.shuffle.protocol.RemoveShuffleMerge
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.LogCapture
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, LostAt, NoPlan, OutputsLost, PlanAnswer}
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.lodestone.plan.{RemoteOutput, RemotePart, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.{ServiceTrouble, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.{Done, LeaseReply, Load, Refused, RegisterShuffle}
import org.apache.spark.shuffle.lodestone.wire.{RenewLease, SegmentLayout, ShuffleMode, Status}

/** Plans for map tasks in mode remote, from the first version to the last. */
@Tag("seldom")
class PlanVersionsSuite extends DriverHarness {

  private def remote(services: Seq[ScriptedService], extra: (String, String)*): DriverCoordinator =
    driver(services, ("spark.lodestone.mode" -> "remote") +: extra: _*)

  private def asked(
      shuffleMergeId: Int = 0,
      trouble: Option[ServiceTrouble] = None,
      shuffleId: Int = 3): PlanAnswer =
    await(ask[PlanAnswer](GetPlan(shuffleId, shuffleMergeId, trouble = trouble)))

  private def readersPlan(): PlanAnswer = placesOf(ShuffleGeneration(3, 0))

  private def planned(
      shuffleMergeId: Int = 0,
      trouble: Option[ServiceTrouble] = None): ShufflePlan =
    asked(shuffleMergeId, trouble).asInstanceOf[ShufflePlan]

  private def troubleAt(
      plan: ShufflePlan,
      service: ServiceLocation,
      why: Reason = Reason.PushDiskFull): Option[ServiceTrouble] =
    Some(ServiceTrouble(plan.generation, plan.newest, service, why))

  private def ports(services: Iterable[ServiceLocation]): Set[Int] = services.map(_.port).toSet

  @Test def `map tasks get services that registered the shuffle as remote`(): Unit = {
    val one = service(7)
    remote(Seq(one)).registered(3, numMaps = 10, numPartitions = 20)
    val plan = planned()
    assertEquals(Seq(one.address.port), plan.versions.head.map(_.port).toSeq)
    assertEquals((0, 20, 1), (plan.generation, plan.numPartitions, plan.replicas))
    val registration = one.next(classOf[RegisterShuffle])
    assertEquals(ShuffleMode.Remote, registration.mode)
    assertEquals(
      (10, 20, 0),
      (registration.numMaps, registration.numPartitions, registration.shuffle.generation))
    assertEquals(
      plan.versions.head.toSeq,
      readersPlan().asInstanceOf[ShufflePlan].versions.head.toSeq)
  }

  @Test def `all map tasks that ask at once get one plan`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(7) { case _: RegisterShuffle => AnswerAfter(gate, Done(7)) }
    remote(Seq(slow)).registered(3, 10, 20)
    val asks = (1 to 10).map(_ => ask[PlanAnswer](GetPlan(3, 0)))
    slow.next(classOf[RegisterShuffle])
    gate.countDown()
    assertEquals(Set(0), asks.map(await(_).asInstanceOf[ShufflePlan].newest).toSet)
    assertEquals(0, slow.count(classOf[RegisterShuffle]))
  }

  @Test def `a service that takes no more is left out of the next version, once`(): Unit = {
    val services = (1 to 3).map(i => service(i.toLong))
    remote(services).registered(3, 10, 100)
    val first = planned()
    assertEquals(3, first.versions.head.length)
    val full = first.versions.head(1)
    val both = (1 to 2).map(_ => planned(trouble = troubleAt(first, full)))
    both.foreach { next =>
      assertEquals((0, 1), (next.generation, next.newest))
      assertEquals(first.versions.head.toSeq, next.versions.head.toSeq)
      assertEquals(ports(first.versions.head) - full.port, ports(next.versions.last))
    }
    assertEquals(1, reasonCount(Reason.PushDiskFull))
  }

  @Test def `a service that has a part of a shuffle is not registered again`(): Unit = {
    val services = (1 to 3).map(i => service(i.toLong))
    remote(services).registered(3, 10, 100)
    val first = planned()
    val next = planned(trouble = troubleAt(first, first.versions.head(1)))
    assertEquals(2, next.versions.last.length)
    // A service that lost its part would create the shuffle again, empty, and readers would miss
    // rows.
    assertEquals(Seq(1, 1, 1), services.map(_.seen(classOf[RegisterShuffle])))
  }

  @Test def `an answer that comes late takes nothing away from a service that is used since`()
      : Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(2) { case _: RegisterShuffle => AnswerAfter(gate, Done(2)) }
    val coordinator = remote(Seq(service(1), slow))
    coordinator.registered(3, 10, 100)
    val first = planned()
    assertEquals(1, first.versions.head.length, "the slow one stays out")
    slow.answering(PartialFunction.empty)
    val next = planned(trouble = troubleAt(first, first.versions.head.head))
    assertEquals(Set(slow.address.port), ports(next.versions.last))
    gate.countDown()
    coordinator.registered(4, 10, 100)
    asked(shuffleId = 4)
    assertEquals(0, slow.count(classOf[RemoveShuffleMerge]))
    coordinator.removed(3)
    assertEquals(3, slow.next(classOf[RemoveShuffleMerge]).shuffleId)
  }

  /**
   * Map tasks have reported two of three services. They reported the second one while the driver
   * made a version without the first, and asked the third, which is slow. `opens` is the time at
   * which that one answers.
   */
  private def reportedMeanwhile(opens: (ScriptedService, CountDownLatch) => Unit): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(3) { case _: RegisterShuffle => AnswerAfter(gate, Done(3)) }
    remote(Seq(service(1), service(2), slow)).registered(3, 10, 100)
    val first = planned()
    assertEquals(2, first.versions.head.length, "the slow one stays out")
    slow.next(classOf[RegisterShuffle])
    val waiting = first.versions.head.toSeq.map { reported =>
      val answer = ask[PlanAnswer](GetPlan(3, 0, trouble = troubleAt(first, reported)))
      if (reported == first.versions.head.head) slow.next(classOf[RegisterShuffle])
      answer
    }
    // When this has an answer, the driver has both reports.
    readersPlan()
    opens(slow, gate)
    waiting.foreach { answer =>
      val next = await(answer).asInstanceOf[ShufflePlan]
      assertEquals(Set(slow.address.port), ports(next.versions.last))
    }
  }

  @Test def `a map task gets its version also if one of its services is reported meanwhile`()
      : Unit = reportedMeanwhile((_, gate) => gate.countDown())

  @Test def `a version of which all services are reported while it is made is made once more`()
      : Unit = reportedMeanwhile { (slow, gate) =>
    // The others did not wait for it. It is asked again without them.
    slow.next(classOf[RegisterShuffle])
    gate.countDown()
  }

  @Test def `a record that is too large while a version is made costs no output`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(3) { case _: RegisterShuffle => AnswerAfter(gate, Done(3)) }
    val services = Seq(service(1), service(2))
    remote(services :+ slow).registered(3, 10, 100)
    val first = planned()
    slow.next(classOf[RegisterShuffle])
    val (full, other) = (first.versions.head.head, first.versions.head.last)
    val waiting = ask[PlanAnswer](GetPlan(3, 0, trouble = troubleAt(first, full)))
    slow.next(classOf[RegisterShuffle])
    val tooLarge = troubleAt(first, other, Reason.PushTooLarge)
    assertEquals(noPlan(Reason.PushTooLarge), asked(trouble = tooLarge))
    assertEquals(noPlan(Reason.PushTooLarge), await(waiting))
    gate.countDown()
    // Nothing was pushed to the service that was asked last. The driver is done with it then.
    slow.next(classOf[RemoveShuffleMerge])
    assertEquals(Seq(0, 0), services.map(_.count(classOf[RemoveShuffleMerge])))
    assertEquals(1, readersPlan().asInstanceOf[ShufflePlan].versions.length)
  }

  @Test def `when no service takes any more map tasks keep their outputs`(): Unit = {
    val one = service(1)
    remote(Seq(one)).registered(3, 10, 100)
    val plan = planned()
    assertEquals(
      noPlan(Reason.NoService),
      asked(trouble = troubleAt(plan, plan.versions.head.head)))
    assertEquals(noPlan(Reason.NoService), asked())
    val places = readersPlan().asInstanceOf[ShufflePlan]
    assertEquals(1, places.versions.length, "what had been pushed cannot be read")
  }

  @Test def `one warning names the services that cannot be reached`()
      : Unit = {
    val gone = service(1)
    gone.close()
    val said = LogCapture.warnings {
      val coordinator = remote(Seq(gone))
      (3 to 5).foreach { shuffleId =>
        coordinator.registered(shuffleId, 10, 100)
        assertEquals(noPlan(Reason.NoService), asked(shuffleId = shuffleId))
      }
    }
    val warning = said.filter(_.contains("No shuffle service can be used"))
    assertEquals(1, warning.size, said.toString)
    assertTrue(warning.head.contains(gone.address.toString), warning.head)
    assertTrue(warning.head.contains("spark.lodestone.services"), warning.head)
  }

  @Test def `lost outputs are forgotten before the answer, and all maps run again`(): Unit = {
    val outputs = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    val services = (1 to 2).map(i => service(i.toLong))
    val coordinator = remote(services)
    coordinator.registered(7, 2, 100)
    outputs.registerShuffle(7, 2, 100)
    try {
      val plan = asked(shuffleId = 7).asInstanceOf[ShufflePlan]
      val location = RemoteOutput(0, Nil).location(7)
      (0 to 1).foreach(i => outputs.registerMapOutput(7, i, statusAt(location, i)))
      assertEquals(2, outputs.getNumAvailableOutputs(7))
      val gone = plan.versions.head.head
      val lost = OutputsLost(7, 0, LostAt(Seq(gone), Reason.FetchRestarted), "driver", -1, 0)
      assertTrue(await(ask[Boolean](lost)))
      assertEquals(0, outputs.getNumAvailableOutputs(7))
      // A second task has found the same.
      assertTrue(await(ask[Boolean](lost)))
      val next = asked(shuffleId = 7).asInstanceOf[ShufflePlan]
      assertEquals((1, 1), (next.generation, next.versions.length))
      assertEquals(ports(plan.versions.head) - gone.port, ports(next.versions.head))
      val other = services.find(_.address.port != gone.port).get
      assertEquals(0, other.next(classOf[RemoveShuffleMerge]).shuffleMergeId)
    } finally {
      outputs.unregisterShuffle(7)
    }
  }

  @Test def `an output of an old generation is forgotten when a reader finds it`()
      : Unit = {
    val outputs = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    remote(Seq(service(1))).registered(7, 2, 100)
    outputs.registerShuffle(7, 2, 100)
    try {
      asked(shuffleId = 7)
      assertEquals(1, asked(shuffleMergeId = 1, shuffleId = 7).asInstanceOf[ShufflePlan].generation)
      // The output of a zombie comes when the others are forgotten, and a new one beside it.
      outputs.registerMapOutput(7, 0, statusAt(RemoteOutput(0, Nil).location(7), 0))
      outputs.registerMapOutput(7, 1, statusAt(RemoteOutput(1, Nil).location(7), 1))
      assertTrue(await(ask[Boolean](OutputsLost(
        7,
        0,
        LostAt(Nil, Reason.OutputLost),
        "driver",
        -1,
        0))))
      assertEquals(Seq(0), outputs.findMissingPartitions(7).get)
    } finally {
      outputs.unregisterShuffle(7)
    }
  }

  private def statusAt(location: org.apache.spark.storage.BlockManagerId, mapId: Int): MapStatus =
    MapStatus(location, Array.fill(100)(1L), mapId.toLong)

  @Test def `a stage that Spark rolls back begins a generation`(): Unit = {
    val one = service(1)
    remote(Seq(one)).registered(3, 10, 100)
    assertEquals(0, planned(shuffleMergeId = 1).generation)
    assertEquals(0, planned(shuffleMergeId = 1).generation)
    assertEquals(1, planned(shuffleMergeId = 2).generation)
    // Belongs to a task of the old attempt, whose output Spark does not take.
    assertEquals(1, planned(shuffleMergeId = 1).generation)
    assertEquals(0, one.next(classOf[RemoveShuffleMerge]).shuffleMergeId)
  }

  @Test def `a service that was restarted after its answer is used with its new incarnation`()
      : Unit = {
    val one = scripted(1) {
      case lease: RegisterShuffle if lease.shuffle.incarnation == 1 =>
        Answer(Refused(Status.StaleIncarnation, 2, "scripted"))
    }
    remote(Seq(one)).registered(3, 10, 100)
    assertEquals(Seq(2L), planned().versions.head.toSeq.map(_.incarnation))
  }

  @Test def `a shuffle of few partitions has the configured number of replicas`(): Unit = {
    val services = (1 to 3).map(i => service(i.toLong))
    remote(services, "spark.lodestone.replicas" -> "2").registered(3, 10, numPartitions = 1)
    val plan = planned()
    assertEquals(2, plan.servicesOf(0, plan.groupOf(0, 0)).distinct.size)
    assertEquals(0, reasonCount(Reason.ReplicasMissing))
  }

  @Test def `the report counts missing replicas`(): Unit = {
    remote(Seq(service(1)), "spark.lodestone.replicas" -> "2").registered(3, 10, 100)
    assertEquals(2, planned().replicas)
    assertEquals(1, reasonCount(Reason.ReplicasMissing))
  }

  /** Two maps whose outputs are at all services of their groups, one of which is drained. */
  private def withOutputs(replicas: Int, others: Script = PartialFunction.empty)(
      check: (ScriptedService, ShufflePlan) => Unit): Unit = {
    val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    val leaving = scripted(1) { case lease: RenewLease =>
      Answer(LeaseReply(1, lease.ttlMs, Healthy.copy(state = Load.Draining)))
    }
    val services = Seq(leaving, scripted(2)(others), scripted(3)(others))
    val conf =
      Seq("spark.lodestone.replicas" -> replicas.toString, "spark.lodestone.lease.ttl" -> "10s")
    remote(services, conf: _*).registered(7, 2, 100)
    tracker.registerShuffle(7, 2, 100)
    try {
      val plan = asked(shuffleId = 7).asInstanceOf[ShufflePlan]
      val location = RemoteOutput(0, Seq(RemotePart(0, Nil))).location(7)
      (0 to 1).foreach(i => tracker.registerMapOutput(7, i, statusAt(location, i)))
      check(leaving, plan)
    } finally {
      tracker.unregisterShuffle(7)
    }
  }

  @Test def `a drained service is released if other services have all of its data`(): Unit =
    withOutputs(replicas = 2) { (leaving, _) =>
      assertEquals(7, leaving.next(classOf[RemoveShuffleMerge]).shuffleId)
      assertTrue(leaving.seen(classOf[RenewLease]) > 0)
    }

  @Test def `a drained service is not released while the other replica does not answer`(): Unit =
    withOutputs(
      replicas = 2,
      { case asked: SegmentLayout =>
        Answer(Refused(
          Status.UnknownShuffle,
          asked.shuffle.incarnation,
          "lost when it was restarted"))
      }) { (leaving, _) =>
      (1 to 3).foreach(_ => leaving.next(classOf[RenewLease]))
      assertEquals(0, leaving.count(classOf[RemoveShuffleMerge]))
    }

  @Test def `a drained service keeps data that only it has and gets no more`(): Unit =
    withOutputs(replicas = 1) { (leaving, first) =>
      (1 to 3).foreach(_ => leaving.next(classOf[RenewLease]))
      assertEquals(0, leaving.count(classOf[RemoveShuffleMerge]))
      val next = asked(shuffleId = 7).asInstanceOf[ShufflePlan]
      assertEquals(ports(first.versions.head) - leaving.address.port, ports(next.versions.last))
    }

  @Test def `services forget a shuffle that Spark forgot`(): Unit = {
    val one = service(1)
    val coordinator = remote(Seq(one))
    coordinator.registered(3, 10, 100)
    planned()
    coordinator.removed(3)
    assertEquals(3, one.next(classOf[RemoveShuffleMerge]).shuffleId)
    assertEquals(noPlan(Reason.UnknownShuffle), asked())
  }

  @Test def `a shuffle that ended while its service was away is removed when it is back`(): Unit = {
    val one = service(1)
    val coordinator = remote(Seq(one), "spark.lodestone.lease.ttl" -> "10s")
    coordinator.registered(3, 10, 100)
    planned()
    one.close()
    // A task has found that it cannot be reached.
    coordinator.registered(4, 10, 100)
    assertTrue(asked(shuffleId = 4).isInstanceOf[NoPlan])
    coordinator.removed(3)
    assertEquals(noPlan(Reason.UnknownShuffle), asked())
    assertEquals(3, restarted(one).next(classOf[RemoveShuffleMerge]).shuffleId)
  }
}
