// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.{Await, Promise}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertThrows, assertTrue}

import org.apache.spark.shuffle.lodestone.driver.ScriptedService
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.{PushCounts, Reason, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{AbortMap, Application, CommitMap, Done, Ledger}
import org.apache.spark.shuffle.lodestone.wire.{Refused, Segment, ShuffleAddress, Status}

/** The messages that services and the driver get when all pushes of a map attempt are over. */
final class BestEffortPushSuite {
  private val app = Application("app", -1)
  private val generation = ShuffleGeneration(3, 0)
  private val mapIndex = 4
  private val mapId = 1L << 40
  private val client = new ServiceClient(app, 1000)
  private var services = Seq.empty[ScriptedService]

  @AfterEach def close(): Unit = {
    client.close()
    services.foreach(_.close())
  }

  private def scripted(incarnation: Long)(script: Script): ScriptedService = {
    val started = new ScriptedService(incarnation).answering(script)
    services :+= started
    started
  }

  private def service(incarnation: Long): ScriptedService =
    scripted(incarnation)(PartialFunction.empty)

  private def locationOf(one: ScriptedService): ServiceLocation =
    ServiceLocation(one.address.host, one.address.port, one.incarnation)

  private def segment(reduceId: Int): Segment =
    Segment(reduceId, length = 10, records = 1, crc32c = 100 + reduceId)

  private def ledgerOf(reduceIds: Int*): Ledger =
    reduceIds.map(id => Ledger.of(mapIndex, mapId, segment(id))).reduce(_.and(_))

  private def shuffleAt(one: ScriptedService): ShuffleAddress =
    ShuffleAddress(app, one.incarnation, generation.shuffleId, generation.number)

  private def commitAt(one: ScriptedService, reduceIds: Int*): CommitMap =
    CommitMap(shuffleAt(one), mapIndex, mapId, ledgerOf(reduceIds: _*))

  /** The push of an attempt, by the indexes of services in the order of their start. */
  private final class Pushed(val over: Promise[PushCounts]) {
    private val at = services.map(locationOf)
    private val plan =
      ShufflePlan(0, numPartitions = services.size, replicas = 1, Array(at.toArray))
    private val attempt = MapAttempt(generation.shuffleId, 0, mapIndex, mapId)
    val push = new BestEffortPush(
      attempt,
      plan,
      client,
      new ShufflePush,
      counts => { over.success(counts); () })

    def pushed(index: Int, segment: Segment): Unit =
      push.ledgers.record(at(index), version = 0, group = index, Array(segment))
    def unknownAt(index: Int): Unit = push.ledgers.markIncomplete(at(index))
    def failed(reason: Reason, blocks: Long): Unit = push.failed(reason, blocks)
  }

  /** Waits for the counts that the driver gets. */
  private def ended(pushes: Pushed => Unit): PushCounts =
    Await.result(ending(pushes).future, 20.seconds)

  private def ending(pushes: Pushed => Unit): Promise[PushCounts] = {
    val attempt = new Pushed(Promise[PushCounts]())
    pushes(attempt)
    attempt.push.close()
    attempt.over
  }

  /** Sends a message that arrives after all others on the same connection. */
  private def assertNothingMoreSent(one: ScriptedService): Unit = {
    Await.result(client.abortMap(locationOf(one), generation, 99, 99), 20.seconds)
    assertEquals(0, one.count(classOf[CommitMap]))
    assertEquals(AbortMap(shuffleAt(one), 99, 99), one.next(classOf[AbortMap]))
  }

  @Test def `an attempt commits at each service just what that service acknowledged`(): Unit = {
    val one = service(1)
    val two = service(2)
    val unused = service(3)
    val counts = ended { attempt =>
      attempt.pushed(0, segment(0))
      attempt.pushed(1, segment(2))
      attempt.pushed(0, segment(1))
    }
    assertEquals(commitAt(one, 0, 1), one.next(classOf[CommitMap]))
    assertEquals(commitAt(two, 2), two.next(classOf[CommitMap]))
    assertEquals(PushCounts(3, 30, 0, Map.empty), counts)
    Seq(one, two, unused).foreach(assertNothingMoreSent)
  }

  @Test def `a service that refuses the commit costs its own blocks and no others`(): Unit = {
    scripted(1) { case _: CommitMap => Answer(Refused(Status.LedgerMismatch, 1, "scripted")) }
    val two = service(2)
    val counts = ended { attempt =>
      attempt.pushed(0, segment(0))
      attempt.pushed(0, segment(1))
      attempt.pushed(1, segment(2))
    }
    assertEquals(commitAt(two, 2), two.next(classOf[CommitMap]))
    assertEquals(PushCounts(1, 10, 0, Map("LEDGER_MISMATCH" -> 2L)), counts)
  }

  @Test def `a connection that breaks or a busy service costs a commit one repetition`(): Unit = {
    val troubles = Seq[Reaction](HangUp, Answer(Refused(Status.Overloaded, 2, "busy")))
    val asked = troubles.zipWithIndex.map { case (trouble, index) =>
      val before = new AtomicInteger
      scripted(index + 1L) { case _: CommitMap if before.getAndIncrement() == 0 => trouble }
    }
    val counts = ended { attempt =>
      attempt.pushed(0, segment(0))
      attempt.pushed(1, segment(1))
    }
    assertEquals(PushCounts(2, 20, 0, Map.empty), counts)
    assertEquals(Seq(2, 2), asked.map(_.seen(classOf[CommitMap])))
  }

  @Test def `a commit that fails again is not sent a third time`(): Unit = {
    val troubles = Seq[Reaction](HangUp, Answer(Refused(Status.Overloaded, 2, "busy")))
    val asked = troubles.zipWithIndex.map { case (trouble, index) =>
      scripted(index + 1L) { case _: CommitMap => trouble }
    }
    val counts = ended { attempt =>
      attempt.pushed(0, segment(0))
      attempt.pushed(1, segment(1))
    }
    val unpushed = Map("PUSH_CONNECTION_FAILED" -> 1L, "PUSH_OVERLOADED" -> 1L)
    assertEquals(PushCounts(0, 0, 0, unpushed), counts)
    assertEquals(Seq(2, 2), asked.map(_.seen(classOf[CommitMap])))
  }

  @Test def `a service that does not answer the commit costs its own blocks and no others`()
      : Unit =
    Seq[Reaction](Silence, HangUp).foreach { trouble =>
      services.foreach(_.close())
      services = Nil
      scripted(1) { case _: CommitMap => trouble }
      service(2)
      val counts = ended { attempt =>
        attempt.pushed(0, segment(0))
        attempt.pushed(1, segment(1))
      }
      assertEquals(PushCounts(1, 10, 0, Map("PUSH_CONNECTION_FAILED" -> 1L)), counts)
    }

  @Test def `an attempt whose push got no answer does not commit there and is aborted there`()
      : Unit = {
    val one = service(1)
    val two = service(2)
    ended { attempt =>
      attempt.pushed(0, segment(0))
      attempt.unknownAt(0)
      attempt.pushed(1, segment(2))
    }
    assertEquals(commitAt(two, 2), two.next(classOf[CommitMap]))
    assertEquals(AbortMap(shuffleAt(one), mapIndex, mapId), one.next(classOf[AbortMap]))
    assertEquals(0, one.seen(classOf[CommitMap]))
    Seq(one, two).foreach(assertNothingMoreSent)
  }

  @Test def `every block of an attempt is counted once also where the attempt does not commit`()
      : Unit = {
    service(1)
    service(2)
    val counts = ended { attempt =>
      attempt.pushed(0, segment(0))
      attempt.failed(Reason.PushConnection, 1)
      attempt.unknownAt(0)
      attempt.pushed(1, segment(2))
    }
    assertEquals((1L, 10L), (counts.blocks, counts.bytes))
    assertEquals(2L, counts.unpushed.values.sum, s"the acknowledged block is nowhere: $counts")
  }

  @Test def `the report waits until every service has answered the commit`(): Unit = {
    val gate = new CountDownLatch(1)
    val slow = scripted(1) { case _: CommitMap => AnswerAfter(gate, Done(1)) }
    val fast = service(2)
    val over = ending { attempt =>
      attempt.pushed(0, segment(0))
      attempt.pushed(1, segment(1))
    }
    Seq(slow, fast).foreach(_.next(classOf[CommitMap]))
    assertFalse(over.isCompleted, "readers would find nothing at the service")
    gate.countDown()
    assertEquals(PushCounts(2, 20, 0, Map.empty), Await.result(over.future, 20.seconds))
  }

  @Test def `a batch that cannot be sent gives its memory back and is not committed`()
      : Unit = {
    val one = service(1)
    val budget = new ByteBudget(10)
    budget.acquire(10)(())
    val freed = new AtomicInteger
    val memory = () => {
      freed.incrementAndGet()
      ()
    }
    val now = System.nanoTime()
    val pool = new PiecePool
    val buffer = new SegmentBuffer(now, 10, budget, pool, isRequired = false, () => (), memory)
    buffer.write(new Array[Byte](10))
    buffer.endSegment(reduceId = 0, number = 0, records = 1)
    val counts = ended { attempt =>
      attempt.pushed(0, segment(0))
      // A bug: it is not sealed.
      assertThrows(classOf[IndexOutOfBoundsException], () => attempt.push.push(buffer))
      ()
    }
    assertEquals(PushCounts(0, 0, 0, Map("PUSH_CONNECTION_FAILED" -> 1L)), counts)
    assertEquals((1, 0L), (freed.get, budget.used))
    assertEquals(AbortMap(shuffleAt(one), mapIndex, mapId), one.next(classOf[AbortMap]))
    assertNothingMoreSent(one)
  }

  @Test def `a service that failed a moment ago shows what it acknowledged`(): Unit = {
    val one = service(1)
    val two = service(2)
    Seq(one, two).foreach(suspect => client.health.failed(suspect.address))
    val counts = ended { attempt =>
      attempt.pushed(0, segment(0))
      attempt.unknownAt(1)
    }
    assertEquals(commitAt(one, 0), one.next(classOf[CommitMap]))
    assertEquals(PushCounts(1, 10, 0, Map.empty), counts)
    Seq(one, two).foreach(assertNothingMoreSent)
  }

  @Test def `an attempt without pushed segments sends no commit and is over at once`(): Unit = {
    val one = service(1)
    val over = ending(_.failed(Reason.PushDiskFull, 2))
    assertTrue(over.isCompleted)
    val counts = Await.result(over.future, 20.seconds)
    assertEquals(PushCounts(0, 0, 0, Map("PUSH_DISK_FULL" -> 2L)), counts)
    assertNothingMoreSent(one)
  }
}
