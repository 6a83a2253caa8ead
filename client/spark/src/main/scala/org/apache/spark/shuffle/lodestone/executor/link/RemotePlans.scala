// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.Success

import org.apache.spark.shuffle.lodestone.plan.{GetPlaces, GetPlan, PlanAnswer, ServiceTrouble}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.SameThread

/** One attempt of a stage. */
private[lodestone] final case class StageRun(stageId: Int, attempt: Int)

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
  def toPush(shuffleId: Int, mergeId: Int, run: StageRun): Future[PlanAnswer] = synchronized {
    known.get(shuffleId) match {
      case Some(Known(plannedFor, runs, answer))
          if plannedFor >= mergeId && runs(run) && isPlan(answer) =>
        answer
      case _ =>
        val asked = driver.plan(GetPlan(shuffleId, mergeId))
        remember(shuffleId, mergeId, Some(run), asked)
    }
  }

  /** For a map task that met trouble. Others may have met it before, and the plan be there. */
  def after(trouble: ServiceTrouble, shuffleId: Int, mergeId: Int): Future[PlanAnswer] =
    synchronized {
      known.get(shuffleId).map(_.answer) match {
        case Some(answer) if isNewer(answer, trouble.epoch, trouble.version) => answer
        case _ =>
          val asked = GetPlan(shuffleId, mergeId, trouble = Some(trouble))
          remember(shuffleId, mergeId, None, driver.plan(asked))
      }
    }

  /**
   * For a reduce task, whose map outputs were pushed by this version of the plan, or earlier ones. Tasks
   * that come while another one's question is under way wait for its answer. It was asked before they
   * came, and may be of before their version was made: then they ask once more, together.
   */
  def toRead(shuffleId: Int, epoch: Int, version: Int): Future[PlanAnswer] = synchronized {
    newer(shuffleId, epoch, version).getOrElse {
      reading.get(shuffleId).filterNot(_.isCompleted) match {
        case None => askPlaces(shuffleId, epoch)
        case Some(earlier) =>
          earlier.transformWith { _ => askedSince(earlier, shuffleId, epoch, version) }(SameThread)
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
      epoch: Int,
      version: Int): Future[PlanAnswer] = synchronized {
    newer(shuffleId, epoch, version)
      .orElse(reading.get(shuffleId).filterNot(_ eq earlier))
      .getOrElse(askPlaces(shuffleId, epoch))
  }

  private def newer(shuffleId: Int, epoch: Int, version: Int): Option[Future[PlanAnswer]] =
    (reading.get(shuffleId) ++ known.get(shuffleId).map(_.answer))
      .find(isNewer(_, epoch, version - 1))

  private def askPlaces(shuffleId: Int, epoch: Int): Future[PlanAnswer] = {
    val asked = driver.places(GetPlaces(shuffleId, epoch))
    reading.put(shuffleId, asked)
    asked
  }

  private def remember(
      shuffleId: Int,
      mergeId: Int,
      run: Option[StageRun],
      answer: Future[PlanAnswer]): Future[PlanAnswer] = {
    val before = known.getOrElse(shuffleId, Known(mergeId, Set.empty, answer))
    known.put(shuffleId, Known(math.max(mergeId, before.mergeId), before.runs ++ run, answer))
    answer
  }

  /** One that is on its way counts: most answers are plans. */
  private def isPlan(answer: Future[PlanAnswer]): Boolean = answer.value.forall {
    case Success(_: ShufflePlan) => true
    case _ => false
  }

  private def isNewer(answer: Future[PlanAnswer], epoch: Int, version: Int): Boolean =
    answer.value.exists {
      case Success(plan: ShufflePlan) =>
        plan.epoch > epoch || (plan.epoch == epoch && plan.newest > version)
      case _ => false
    }
}

private[lodestone] object RemotePlans {

  /** This executor had map tasks of the shuffle with that merge id, and asked for those runs. */
  private final case class Known(
      mergeId: Int,
      runs: Set[StageRun],
      answer: Future[PlanAnswer])
}
