// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.Future

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows}
import org.junit.jupiter.api.Test

import org.apache.spark.{SparkException, TaskKilledException}
import org.apache.spark.shuffle.lodestone.plan.{NoPlan, PlanAnswer, Reason, ShufflePlan}

final class DriverQuestionSuite {
  private val plan: PlanAnswer = ShufflePlan(0, numPartitions = 1, replicas = 1, Array(Array()))
  private val busy = Future.failed[PlanAnswer](new SparkException("too many events"))
  private val asked = new AtomicInteger

  private def answer(answers: Future[PlanAnswer]*): PlanAnswer =
    DriverQuestion("where it is", () => ())(answers(asked.getAndIncrement()))

  private def assertFails(answers: Future[PlanAnswer]*): Unit = {
    assertThrows(
      classOf[SparkException],
      () => {
        answer(answers: _*)
        ()
      })
    ()
  }

  @Test def `a driver that is merely busy is asked again`(): Unit = {
    val late = Future.failed[PlanAnswer](new TimeoutException("scripted"))
    assertEquals(plan, answer(busy, late, Future.successful(plan)))
    assertEquals(3, asked.get)
  }

  @Test def `a driver that is busy for long fails the task`(): Unit = {
    assertFails(Seq.fill(10)(busy): _*)
    assertEquals(3, asked.get)
  }

  @Test def `an answer of the driver is not asked for again`(): Unit = {
    val left: PlanAnswer = NoPlan(Reason.NoService)
    assertEquals(left, answer(Future.successful(left)))
  }

  @Test def `an RPC environment that was stopped is not asked again`(): Unit = {
    assertFails(Future.failed(new IllegalStateException("RpcEnv already stopped.")))
    assertEquals(1, asked.get)
  }

  @Test def `a task that was killed waits no longer`(): Unit = {
    val killed = () => throw new TaskKilledException("scripted")
    assertThrows(
      classOf[TaskKilledException],
      () => {
        DriverQuestion("where it is", killed)(Future.never)
        ()
      })
    ()
  }
}
