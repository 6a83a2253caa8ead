// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.nio.file.Path
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.DurationInt
import scala.util.Try

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{SparkException, TaskKilledException}
import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.{ByteBudget, MapAttempt}
import org.apache.spark.shuffle.lodestone.executor.push.{PiecePool, PushTarget, SegmentBuffer}
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, NoPlan, PlanAnswer, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, ShuffleMode, Status}

/** A map task that pushes when things go wrong: it ends, one way or the other. */
final class RequiredPushSuite {
  @TempDir var directory: Path = _

  private val gone = SilentDriver.goneService()
  private val plan = ShufflePlan(0, numPartitions = 10, replicas = 1, Array(Array(gone)))

  private class Driver(answer: => Future[PlanAnswer]) extends SilentDriver {
    override def plan(asked: GetPlan): Future[PlanAnswer] = answer
  }

  private def buffer(
      whenFree: () => Unit = () => (),
      reduceId: Int = 4,
      firstSegment: Int = 0): SegmentBuffer = {
    val size = PiecePool.PieceBytes.toLong
    val budget = new ByteBudget(size)
    budget.acquire(size)(())
    val (now, pool) = (System.nanoTime(), new PiecePool)
    val buffer =
      new SegmentBuffer(now, size, budget, pool, isRequired = true, () => (), whenFree)
    buffer.write(Array[Byte](1, 2, 3))
    buffer.endSegment(reduceId, number = 0, records = 1)
    buffer.seal(firstSegment)
    buffer
  }

  /** Returns the failure of a task that pushes one segment. Its memory comes back. */
  private def pushing(answer: => Future[PlanAnswer]): Throwable = {
    val free = new CountDownLatch(1)
    val client = new ServiceClient(Application("app", -1), 1000)
    try {
      val once = new RetryPolicy(0, _ => None)
      val means = PushMeans(client, new PlanCache(new Driver(answer)), once, once)
      val push = new RequiredPush(MapAttempt(3, 0, 0, 100), plan, means, () => ())
      val task = Future {
        push.push(buffer(() => free.countDown()))
        push.commit()
      }(scala.concurrent.ExecutionContext.global)
      val ended = Await.ready(task, 20.seconds).value.get.failed.get
      assertTrue(free.await(20, TimeUnit.SECONDS), "its memory is gone for ever")
      ended
    } finally {
      client.close()
    }
  }

  @Test def `a task whose service and driver are both gone ends and does not wait for ever`()
      : Unit = {
    val stopped = new IllegalStateException("RpcEnv has been stopped")
    assertTrue(pushing(throw stopped).isInstanceOf[TaskKilledException])
    assertTrue(pushing(Future.failed(stopped)).isInstanceOf[TaskKilledException])
  }

  @Test def `a bug in a callback that nobody waits for ends the task`(): Unit = {
    val broken = plan.copy(generation = 1, versions = null)
    val ended = pushing(Future.successful(broken))
    assertEquals(classOf[SparkException], ended.getClass)
    assertEquals(classOf[NullPointerException], ended.getCause.getClass)
  }

  /** How an attempt at a real daemon ends; `act` gets what drops it, as the driver does. */
  private def droppedByDriver(act: (RequiredPush, () => Unit) => Unit): Throwable = {
    val daemon = DaemonProcess.start(directory.resolve("daemon").toFile)
    val client = new ServiceClient(Application("app", -1), 10000)
    try {
      val service = daemon.location
      val id = ShuffleGeneration(3, 0)
      Await.result(client.registerShuffle(service, id, 4, 10, ShuffleMode.Remote), 20.seconds)
      val failures = new AtomicInteger
      val plans = new PlanCache(new Driver({
        failures.incrementAndGet()
        Future.failed(new IllegalStateException("scripted"))
      }))
      val retryPolicy = new RetryPolicy(10000, _ => None)
      val means = PushMeans(client, plans, retryPolicy, retryPolicy)
      val at = plan.copy(versions = Array(Array(service)))
      val push = new RequiredPush(MapAttempt(3, 0, 0, 100), at, means, () => ())
      val drop = () => {
        Await.result(client.abortMap(service, id, 0, 100), 20.seconds)
        ()
      }
      val task = Future(act(push, drop))(scala.concurrent.ExecutionContext.global)
      val ended = Await.ready(task, 20.seconds).value.get.failed.get
      assertEquals(0, failures.get, "all other tasks will avoid the service")
      ended
    } finally {
      client.close()
      daemon.kill()
    }
  }

  @Test def `an attempt that the driver dropped before it pushed ends and blames no service`()
      : Unit = {
    val ended = droppedByDriver { (push, drop) =>
      drop()
      push.push(buffer())
      push.commit()
      ()
    }
    assertEquals(classOf[TaskKilledException], ended.getClass, ended.toString)
  }

  @Test def `an attempt that the driver dropped before it committed ends and blames no service`()
      : Unit = {
    val ended = droppedByDriver { (push, drop) =>
      val taken = new CountDownLatch(1)
      push.push(buffer(() => taken.countDown()))
      taken.await(20, TimeUnit.SECONDS)
      drop()
      push.commit()
      ()
    }
    assertEquals(classOf[TaskKilledException], ended.getClass, ended.toString)
  }

  @Test def `an attempt that fails at its last look commits nowhere`(): Unit = {
    val taking = new PushTarget((_, batch) => PushTarget.all(Status.Ok, batch))
    val full = new PushTarget((_, batch) => PushTarget.all(Status.DiskFull, batch))
    val client = new ServiceClient(Application("app", -1), 10000)
    try {
      val (asked, taken) = (new CountDownLatch(1), new CountDownLatch(1))
      val next = Promise[PlanAnswer]()
      val driver = new Driver({
        asked.countDown()
        next.future
      })
      val once = new RetryPolicy(0, _ => None)
      val means = PushMeans(client, new PlanCache(driver), once, once)
      val both = plan.copy(versions = Array(Array(taking.location, full.location)))
      // The task looks whether it was killed. At this moment the driver answers.
      def alive(): Unit = {
        next.trySuccess(NoPlan(Reason.NoService))
        ()
      }
      val push = new RequiredPush(MapAttempt(3, 0, 0, 100), both, means, () => alive())
      push.push(buffer(() => taken.countDown(), reduceId = 0))
      push.push(buffer(reduceId = 9, firstSegment = 1))
      assertTrue(taken.await(20, TimeUnit.SECONDS) && asked.await(20, TimeUnit.SECONDS))
      val ended = Try(push.commit()).failed.get
      assertEquals(classOf[TaskKilledException], ended.getClass, ended.toString)
      assertTrue(taking.ends.isEmpty, s"it sent ${taking.ends}")
    } finally {
      client.close()
      Seq(taking, full).foreach(_.close())
    }
  }

  @Test def `a task that waits for memory finds out that it was killed`(): Unit = {
    val budget = new ByteBudget(10)
    budget.acquire(10)(())
    val waiting = Try(budget.acquire(1)(throw new TaskKilledException("scripted")))
    assertTrue(waiting.failed.get.isInstanceOf[TaskKilledException])
    assertEquals(10L, budget.used)
    budget.release(10)
    budget.acquire(1)(throw new AssertionError("there is room"))
  }
}
