// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.collection.mutable
import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkException
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.plan.{GetReadPlan, GetPlan, NoPlan, PlanAnswer, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration, ShufflePlan}

final class PlanCacheSuite {
  private val questions = mutable.ArrayBuffer.empty[Promise[PlanAnswer]]
  private val plans = new PlanCache(new SilentDriver {
    override def readPlan(asked: GetReadPlan): Future[PlanAnswer] = {
      questions += Promise[PlanAnswer]()
      questions.last.future
    }
  })

  private val generation = ShuffleGeneration(3, 0)

  private def planOf(versions: Int): ShufflePlan = {
    val services = Array(ServiceLocation("127.0.0.1", 1, 7))
    ShufflePlan(0, numPartitions = 1, replicas = 1, Array.fill(versions)(services))
  }

  private def newest(answer: Future[PlanAnswer]): Int =
    Await.result(answer, 10.seconds).asInstanceOf[ShufflePlan].newest

  @Test def `the reduce tasks of a new executor ask the driver once for all`(): Unit = {
    val asked = (1 to 20).map(_ => plans.toRead(generation, version = 0))
    assertEquals(1, questions.size)
    questions.head.success(planOf(versions = 1))
    asked.foreach(answer => assertEquals(0, newest(answer)))
    newest(plans.toRead(generation, version = 0))
    assertEquals(1, questions.size)
  }

  @Test def `an answer that was under way before a version was made is not taken for that`()
      : Unit = {
    val first = plans.toRead(generation, version = 0)
    val later = (1 to 5).map(_ => plans.toRead(generation, version = 1))
    questions.head.success(planOf(versions = 1))
    assertEquals(0, newest(first))
    later.foreach(answer => assertFalse(answer.isCompleted))
    assertEquals(2, questions.size)
    questions(1).success(planOf(versions = 2))
    later.foreach(answer => assertEquals(1, newest(answer)))
    assertEquals(2, questions.size)
  }

  @Test def `a question that failed does not fail the tasks that waited for it`(): Unit = {
    val first = plans.toRead(generation, version = 0)
    val second = plans.toRead(generation, version = 0)
    questions.head.failure(new IllegalStateException("scripted"))
    questions(1).success(planOf(versions = 1))
    assertEquals(0, newest(second))
    assertTrue(first.value.exists(_.isFailure))
  }

  @Test def `the answer for a reader is no answer for a map task`(): Unit = {
    val planned = mutable.ArrayBuffer.empty[Promise[PlanAnswer]]
    val both = new PlanCache(new SilentDriver {
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
    both.toRead(generation, version = 0)
    // It gets its answer at once: the new generation has no plan yet.
    val second = both.toPush(3, 0, again)
    questions.last.success(NoPlan(Reason.UnknownShuffle))
    planned.foreach(_.success(planOf(versions = 1)))
    assertEquals(0, newest(first))
    assertEquals(0, newest(second))
  }

  @Test def `each attempt of a stage asks once what is merged and keeps the answer`(): Unit = {
    val (first, second) = (StageAttempt(1, 0), StageAttempt(1, 1))
    (1 to 5).foreach(_ => plans.toRead(generation, first))
    questions.head.success(NoPlan(Reason.NothingPushed))
    plans.toRead(generation, first)
    assertEquals(1, questions.size)
    plans.toRead(generation, second)
    plans.toRead(generation.copy(number = 1), second)
    assertEquals(3, questions.size)
    plans.forget(3)
    plans.toRead(generation, first)
    assertEquals(4, questions.size)
  }

  @Test def `a reduce task asks again what is merged if a question has failed`(): Unit = {
    var asked = 0
    val unreachable = new PlanCache(new SilentDriver {
      override def readPlan(question: GetReadPlan): Future[PlanAnswer] = {
        asked += 1
        Future.failed(new IllegalStateException("scripted"))
      }
    })
    val stage = StageAttempt(1, 0)
    plans.toRead(generation, stage)
    questions.head.failure(new IllegalStateException("scripted"))
    plans.toRead(generation, stage)
    assertEquals(2, questions.size)
    // The next ones fail at once.
    (1 to 2).foreach(_ => unreachable.toRead(generation, stage))
    assertEquals(2, asked)
  }

  @Test def `a driver that was too busy to answer is asked again`(): Unit = {
    val stage = StageAttempt(1, 0)
    plans.toRead(generation, stage)
    questions.head.failure(new SparkException("too many events"))
    plans.toRead(generation, stage)
    assertEquals(2, questions.size)
  }
}
