// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.Success

import org.apache.spark.shuffle.lodestone.plan.{GetReadPlan, GetPlan, PlanAnswer, ServiceTrouble}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.SameThread

/** One attempt of a stage. */
private[lodestone] final case class StageAttempt(stageId: Int, attempt: Int)

/** What an executor knows of where remote shuffles are. Only plans are remembered, no refusals. */
private[lodestone] final class RemotePlans(driver: DriverLink) {
  import RemotePlans._

  private val known = mutable.HashMap.empty[Int, Known]

  /**
   * By shuffle, the last question of a reduce task. Its answer is none for map tasks: it may name services
   * that are avoided by now, or say that there is no plan yet.
   */
  private val reading = mutable.HashMap.empty[Int, Future[PlanAnswer]]

  /**
   * For a map task: the newest plan that is known, if the driver was asked since the stage began this run.
   * A run of a stage that failed may be there because all that was pushed by an earlier plan is lost.
   */
  def toPush(shuffleId: Int, shuffleMergeId: Int, stageAttempt: StageAttempt): Future[PlanAnswer] =
    synchronized {
      known.get(shuffleId) match {
        case Some(Known(plannedFor, stageAttempts, answer))
            if plannedFor >= shuffleMergeId && stageAttempts(stageAttempt) && isPlan(answer) =>
          answer
        case _ =>
          val asked = driver.plan(GetPlan(shuffleId, shuffleMergeId))
          remember(shuffleId, shuffleMergeId, Some(stageAttempt), asked)
      }
    }

  /** For a map task that met trouble. Others may have met it before, and the plan be there. */
  def after(trouble: ServiceTrouble, shuffleId: Int, shuffleMergeId: Int): Future[PlanAnswer] =
    synchronized {
      known.get(shuffleId).map(_.answer) match {
        case Some(answer) if isNewer(answer, trouble.generation, trouble.version) => answer
        case _ =>
          val asked = GetPlan(shuffleId, shuffleMergeId, trouble = Some(trouble))
          remember(shuffleId, shuffleMergeId, None, driver.plan(asked))
      }
    }

  /**
   * For a reduce task, whose map outputs were pushed by this version of the plan, or earlier ones. Tasks
   * that come while another one's question is under way wait for its answer. It was asked before they
   * came, and may be of before their version was made: then they ask once more, together.
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
    (reading.get(shuffleId) ++ known.get(shuffleId).map(_.answer))
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

  /** One that is on its way counts: most answers are plans. */
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

  /** This executor had map tasks of the shuffle with that merge id, and asked for those stageAttempts. */
  private final case class Known(
      shuffleMergeId: Int,
      stageAttempts: Set[StageAttempt],
      answer: Future[PlanAnswer])
}
