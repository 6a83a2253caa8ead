// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.Success

import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport.SameThread

private[lodestone] final case class StageAttempt(stageId: Int, attempt: Int)

/** The plans of remote shuffles that an executor knows. It remembers plans, and no refusals. */
private[lodestone] final class RemotePlans(driver: DriverLink) {
  import RemotePlans._

  private val known = mutable.HashMap.empty[Int, Known]

  /**
   * By shuffle, the last question of a reduce task. Map tasks do not use its answer: it may name
   * services that are avoided now, or say that there is no plan yet.
   */
  private val reading = mutable.HashMap.empty[Int, Future[PlanAnswer]]

  /**
   * Returns the newest known plan for a map task, if the driver was asked since the stage attempt
   * began. A stage attempt may exist because all pushes by an earlier plan are lost.
   */
  def toPush(shuffleId: Int, shuffleMergeId: Int, stageAttempt: StageAttempt): Future[PlanAnswer] =
    synchronized {
      known.get(shuffleId) match {
        case Some(Known(plannedFor, stageAttempts, plan))
            if plannedFor >= shuffleMergeId && stageAttempts(stageAttempt) && isPlan(plan) =>
          plan
        case _ =>
          val asked = driver.plan(GetPlan(shuffleId, shuffleMergeId))
          remember(shuffleId, shuffleMergeId, Some(stageAttempt), asked)
      }
    }

  /**
   * Returns a plan for a map task that reports trouble with a service. Another task may have
   * reported it before, so that the plan is known.
   */
  def after(trouble: ServiceTrouble, shuffleId: Int, shuffleMergeId: Int): Future[PlanAnswer] =
    synchronized {
      known.get(shuffleId).map(_.plan) match {
        case Some(answer) if isNewer(answer, trouble.generation, trouble.version) => answer
        case _ =>
          val asked = GetPlan(shuffleId, shuffleMergeId, trouble = Some(trouble))
          remember(shuffleId, shuffleMergeId, None, driver.plan(asked))
      }
    }

  /**
   * Returns the plan for a reduce task whose map outputs were pushed by this version of the plan,
   * or earlier ones. If another task's question is under way, it waits for that answer. The
   * question was sent earlier, so the answer may be older than the version. Then all waiting tasks
   * ask once more, together.
   */
  def toRead(shuffleId: Int, generation: Int, version: Int): Future[PlanAnswer] = synchronized {
    newer(shuffleId, generation, version).getOrElse {
      reading.get(shuffleId).filterNot(_.isCompleted) match {
        case None => askReadPlan(shuffleId, generation)
        case Some(earlier) =>
          earlier.transformWith { _ => askedSince(earlier, shuffleId, generation, version) }(
            SameThread)
      }
    }
  }

  def forget(shuffleId: Int): Unit = synchronized {
    known.remove(shuffleId)
    reading.remove(shuffleId)
    ()
  }

  private def askedSince(
      earlier: Future[PlanAnswer],
      shuffleId: Int,
      generation: Int,
      version: Int): Future[PlanAnswer] = synchronized {
    newer(shuffleId, generation, version)
      .orElse(reading.get(shuffleId).filterNot(_ eq earlier))
      .getOrElse(askReadPlan(shuffleId, generation))
  }

  private def newer(shuffleId: Int, generation: Int, version: Int): Option[Future[PlanAnswer]] =
    (reading.get(shuffleId) ++ known.get(shuffleId).map(_.plan))
      .find(isNewer(_, generation, version - 1))

  private def askReadPlan(shuffleId: Int, generation: Int): Future[PlanAnswer] = {
    val asked = driver.readPlan(GetReadPlan(shuffleId, generation))
    reading.put(shuffleId, asked)
    asked
  }

  private def remember(
      shuffleId: Int,
      shuffleMergeId: Int,
      stageAttempt: Option[StageAttempt],
      answer: Future[PlanAnswer]): Future[PlanAnswer] = {
    val before = known.getOrElse(shuffleId, Known(shuffleMergeId, Set.empty, answer))
    known.put(
      shuffleId,
      Known(
        math.max(shuffleMergeId, before.shuffleMergeId),
        before.stageAttempts ++ stageAttempt,
        answer))
    answer
  }

  /** A question under way counts as a plan, because most answers are plans. */
  private def isPlan(answer: Future[PlanAnswer]): Boolean = answer.value.forall {
    case Success(_: ShufflePlan) => true
    case _ => false
  }

  private def isNewer(answer: Future[PlanAnswer], generation: Int, version: Int): Boolean =
    answer.value.exists {
      case Success(plan: ShufflePlan) =>
        plan.generation > generation || (plan.generation == generation && plan.newest > version)
      case _ => false
    }
}

private[lodestone] object RemotePlans {

  /**
   * The last answer for map tasks: of the largest `shuffleMergeId` so far, and asked for by these
   * stage attempts.
   */
  private final case class Known(
      shuffleMergeId: Int,
      stageAttempts: Set[StageAttempt],
      plan: Future[PlanAnswer])
}
