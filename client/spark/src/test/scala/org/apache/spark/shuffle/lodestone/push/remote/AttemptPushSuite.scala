// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.remote

import java.net.ServerSocket

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.{DurationInt, FiniteDuration}
import scala.util.Try

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.{SparkException, TaskKilledException}
import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver._
import org.apache.spark.shuffle.lodestone.driver.remote.RemotePlans
import org.apache.spark.shuffle.lodestone.push.{BodyMemory, ByteBudget}
import org.apache.spark.shuffle.lodestone.transport.{Patience, ServiceClient, ServiceLocation}
import org.apache.spark.shuffle.lodestone.wire.Application

/** A map task that pushes when things go wrong: it ends, one way or the other. */
final class AttemptPushSuite {

  /** One whose process has just gone. */
  private val gone = {
    val socket = new ServerSocket(0)
    try ServiceLocation("127.0.0.1", socket.getLocalPort, 7)
    finally socket.close()
  }
  private val plan = RemotePlan(0, numPartitions = 10, replicas = 1, Array(Array(gone)))

  private class Driver(answer: => Future[DriverMessage]) extends RemoteDriverLink {
    override def remotePlan(asked: GetRemotePlan): Future[DriverMessage] = answer
    override def remotePlaces(shuffleId: Int): Future[DriverMessage] = unexpected
    override def lost(outputs: OutputsLost): Future[Boolean] = unexpected
    override def plan(id: ShuffleGeneration, sample: MapSample): Future[DriverMessage] = unexpected
    override def result(id: ShuffleGeneration): Future[DriverMessage] = unexpected
    override def distrust(id: ShuffleGeneration, reduceId: Int, why: Reason): Future[Boolean] =
      unexpected
    override def tell(message: DriverMessage): Unit = unexpected
    override def patience: FiniteDuration = 10.seconds
    private def unexpected: Nothing = throw new AssertionError("nobody asks that here")
  }

  private def body(memory: BodyMemory): SegmentBody = {
    val output = new SegmentOutput(memory)
    output.write(Array[Byte](1, 2, 3))
    output.endSegment(reduceId = 4, records = 1)
    output.result(0, () => ())
  }

  /** What a task that pushes one segment ends with. */
  private def pushing(answer: => Future[DriverMessage]): Throwable = {
    val client = new ServiceClient(Application("app", -1), 1000)
    try {
      val once = new Patience(0, _ => None)
      val means = PushMeans(client, new RemotePlans(new Driver(answer)), once, once)
      val push = new AttemptPush(MapAttempt(3, 0, 0, 100), plan, means, () => ())
      val task = Future {
        push.push(body(new BodyMemory))
        push.commit()
      }(scala.concurrent.ExecutionContext.global)
      Await.ready(task, 20.seconds).value.get.failed.get
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

  @Test def `a bug in what nobody waits for ends the task with it`(): Unit = {
    val broken = plan.copy(epoch = 1, versions = null)
    val ended = pushing(Future.successful(broken))
    assertEquals(classOf[SparkException], ended.getClass)
    assertEquals(classOf[NullPointerException], ended.getCause.getClass)
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
