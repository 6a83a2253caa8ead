// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.collection.mutable
import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.plan.{GetReadPlan, GetPlan, NoPlan, PlanAnswer, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShufflePlan}

final class RemotePlansSuite {
  private val questions = mutable.ArrayBuffer.empty[Promise[PlanAnswer]]
  private val plans = new RemotePlans(new SilentDriver {
    override def readPlan(asked: GetReadPlan): Future[PlanAnswer] = {
      questions += Promise[PlanAnswer]()
      questions.last.future
    }
  })

  private def planOf(versions: Int): ShufflePlan = {
    val services = Array(ServiceLocation("127.0.0.1", 1, 7))
    ShufflePlan(0, numPartitions = 1, replicas = 1, Array.fill(versions)(services))
  }

  private def newest(answer: Future[PlanAnswer]): Int =
    Await.result(answer, 10.seconds).asInstanceOf[ShufflePlan].newest

  @Test def `the reduce tasks of a new executor ask the driver once for all`(): Unit = {
    val asked = (1 to 20).map(_ => plans.toRead(3, generation = 0, version = 0))
    assertEquals(1, questions.size)
    questions.head.success(planOf(versions = 1))
    asked.foreach(answer => assertEquals(0, newest(answer)))
    newest(plans.toRead(3, 0, 0))
    assertEquals(1, questions.size)
  }

  @Test def `an answer that was under way before a version was made is not taken for that`()
      : Unit = {
    val first = plans.toRead(3, generation = 0, version = 0)
    val later = (1 to 5).map(_ => plans.toRead(3, generation = 0, version = 1))
    questions.head.success(planOf(versions = 1))
    assertEquals(0, newest(first))
    later.foreach(answer => assertFalse(answer.isCompleted))
    assertEquals(2, questions.size)
    questions(1).success(planOf(versions = 2))
    later.foreach(answer => assertEquals(1, newest(answer)))
    assertEquals(2, questions.size)
  }

  @Test def `a question that failed does not fail the tasks that waited for it`(): Unit = {
    val first = plans.toRead(3, generation = 0, version = 0)
    val second = plans.toRead(3, generation = 0, version = 0)
    questions.head.failure(new IllegalStateException("scripted"))
    questions(1).success(planOf(versions = 1))
    assertEquals(0, newest(second))
    assertTrue(first.value.exists(_.isFailure))
  }

  @Test def `the answer for a reader is no answer for a map task`(): Unit = {
    val planned = mutable.ArrayBuffer.empty[Promise[PlanAnswer]]
    val both = new RemotePlans(new SilentDriver {
      override def plan(asked: GetPlan): Future[PlanAnswer] = {
        planned += Promise[PlanAnswer]()
        planned.last.future
      }
      override def readPlan(asked: GetReadPlan): Future[PlanAnswer] = {
        questions += Promise[PlanAnswer]()
        questions.last.future
      }
    })
    // All maps run again. The first map task has asked, and a version is in the making.
    val again = StageAttempt(1, 1)
    val first = both.toPush(3, 0, again)
    // A reduce task of the old generation still runs.
    both.toRead(3, generation = 0, version = 0)
    // It gets its answer at once: the new generation has no plan yet.
    val second = both.toPush(3, 0, again)
    questions.last.success(NoPlan(Reason.UnknownShuffle.code))
    planned.foreach(_.success(planOf(versions = 1)))
    assertEquals(0, newest(first))
    assertEquals(0, newest(second))
  }
}
