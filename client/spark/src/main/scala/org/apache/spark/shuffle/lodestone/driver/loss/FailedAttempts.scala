// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import scala.collection.mutable
import scala.concurrent.ExecutionContext

import org.apache.spark._
import org.apache.spark.scheduler._
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.plans.Shuffles
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * Aborts map attempts that Spark gave up, so that services drop their segments. An executor aborts
 * its own attempts, except if it was killed, or if an attempt finished as the second one. This is
 * best effort: what services keep, they remove with the shuffle. All calls are events of the loop.
 */
private[driver] final class FailedAttempts(
    shuffles: Shuffles,
    client: ServiceClient,
    tracker: () => MapOutputTrackerMaster,
    loop: EventLoop) {
  import FailedAttempts._

  private implicit val events: ExecutionContext = loop.context

  /** The shuffles of stages, the earliest first. A task may end long after its stage. */
  private val shuffleOf = mutable.LinkedHashMap.empty[Int, Int]
  private val waiting = mutable.Queue.empty[Attempt]

  /** The number of services that have not answered the last abort. */
  private var open = 0

  /** A stage with map tasks of the shuffle was submitted. */
  def began(stageId: Int, shuffleId: Int): Unit = if (shuffles.inUse(shuffleId).isDefined) {
    shuffleOf.remove(stageId)
    shuffleOf.put(stageId, shuffleId)
    if (shuffleOf.size > MaxStages) shuffleOf.remove(shuffleOf.head._1)
    ()
  }

  def failed(stageId: Int, mapIndex: Int, mapId: Long): Unit =
    for (shuffleId <- shuffleOf.get(stageId) if waiting.size < MaxWaiting) {
      waiting.enqueue(Attempt(shuffleId, mapIndex, mapId))
      abortNext()
    }

  /** Aborts one attempt at a time, because a service searches all segments of a shuffle for it. */
  private def abortNext(): Unit = while (open == 0 && waiting.nonEmpty) {
    val attempt = waiting.dequeue()
    for ((id, services) <- shuffles.inUse(attempt.shuffleId) if !isAccepted(attempt)) {
      // A service that does not answer would delay the aborts at the others.
      services.filterNot(client.isSuspect).foreach { service =>
        open += 1
        client.abortMap(service, id, attempt.mapIndex, attempt.mapId).foreach { _ =>
          open -= 1
          abortNext()
        }
      }
    }
  }

  /**
   * True if Spark has accepted the attempt, or if this is unknown. Spark accepts no attempt of a
   * failed task, but if it did, an abort would lose rows.
   */
  private def isAccepted(attempt: Attempt): Boolean =
    tracker().shuffleStatuses.get(attempt.shuffleId).forall(_.withMapStatuses { outputs =>
      !outputs.indices.contains(attempt.mapIndex) ||
      Option(outputs(attempt.mapIndex)).exists(_.mapId == attempt.mapId)
    })
}

private[driver] object FailedAttempts {
  private final case class Attempt(shuffleId: Int, mapIndex: Int, mapId: Long)

  /**
   * Some 100 KB. An older stage has no task left, or one whose segments are removed with the
   * shuffle.
   */
  private val MaxStages = 1000

  /** More attempts than one executor runs at a time. Services remove the rest with the shuffle. */
  private val MaxWaiting = 4000
}

/**
 * Learns from Spark's scheduler which attempts of map tasks failed. Spark's `TaskSetManager` ends
 * each attempt once, as a success or as a failure, and ignores later results: it never accepts the
 * output of a failed attempt. This includes the second of two attempts in one stage attempt, which
 * counts as killed though it finished.
 *
 * Successes are ignored. Spark reports them before `DAGScheduler` registers their output; and if
 * two attempts of different stage attempts succeed, readers may have the first one while Spark
 * takes the second.
 */
private[driver] final class MapTaskEnds(attempts: FailedAttempts, loop: EventLoop)
    extends SparkListener {

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit = {
    val stage = submitted.stageInfo
    stage.shuffleDepId.foreach { shuffleId =>
      loop.offer(() => attempts.began(stage.stageId, shuffleId))
    }
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
    if (MapTaskEnds.isNeverAccepted(end.reason)) {
      val task = end.taskInfo
      // `index` counts the tasks of the stage attempt, which need not have all partitions.
      loop.offer(() => attempts.failed(end.stageId, task.partitionId, task.taskId))
      ()
    }
}

private[driver] object MapTaskEnds {

  /**
   * True if Spark never accepts the output of such an attempt. `Resubmitted` is a failure by its
   * type, but is about accepted attempts. A reason that a later Spark adds may be about accepted
   * ones too. (The state of the task does not show this: a task whose result was lost looks
   * successful.)
   */
  private def isNeverAccepted(reason: TaskEndReason): Boolean = reason match {
    case _: ExceptionFailure | _: TaskKilled | _: ExecutorLostFailure | _: FetchFailed |
        TaskResultLost =>
      true
    case _ => false
  }
}
