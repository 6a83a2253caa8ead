// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import scala.collection.mutable
import scala.concurrent.ExecutionContext

import org.slf4j.LoggerFactory

import org.apache.spark.MapOutputTrackerMaster
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.plans.Shuffles
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * Map attempts that Spark has given up: services drop what they have of them. Executors say so
 * themselves, but one that was killed says nothing, nor does one whose attempt finished as the
 * second. All of it is best effort: what is not told goes with the shuffle. All calls are events of
 * the loop.
 */
private[driver] final class FailedAttempts(
    shuffles: Shuffles,
    client: ServiceClient,
    tracker: () => MapOutputTrackerMaster,
    loop: EventLoop) {
  import FailedAttempts._

  private val log = LoggerFactory.getLogger(classOf[FailedAttempts])
  private implicit val events: ExecutionContext = loop.context

  /** The shuffle of a stage, the earliest first. Tasks may end long after their stage. */
  private val shuffleOf = mutable.LinkedHashMap.empty[Int, Int]
  private val waiting = mutable.Queue.empty[Attempt]

  /** Services that have not said yet that they dropped the last one. */
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

  /** One attempt at a time: a service looks through all that it has of a shuffle. */
  private def abortNext(): Unit = while (open == 0 && waiting.nonEmpty) {
    val attempt = waiting.dequeue()
    for ((id, services) <- shuffles.inUse(attempt.shuffleId) if !isAccepted(attempt)) {
      // One that does not answer would keep the others waiting.
      services.filterNot(client.isSuspect).foreach(abort(_, id, attempt))
    }
  }

  private def abort(
      service: ServiceLocation,
      id: ShuffleGeneration,
      attempt: Attempt): Unit = {
    val dropped = client.abortMap(service, id, attempt.mapIndex, attempt.mapId)
    open += 1
    dropped.onComplete { outcome =>
      outcome.failed.foreach { cause =>
        log.debug(s"${service.hostPort} did not drop $attempt: ${cause.getMessage}")
      }
      open -= 1
      abortNext()
    }
  }

  /** It cannot be, as its task failed; a row would be lost if it were. True if nobody knows. */
  private def isAccepted(attempt: Attempt): Boolean =
    tracker().shuffleStatuses.get(attempt.shuffleId).forall(_.withMapStatuses { outputs =>
      !outputs.indices.contains(attempt.mapIndex) ||
      Option(outputs(attempt.mapIndex)).exists(_.mapId == attempt.mapId)
    })
}

private[driver] object FailedAttempts {
  private final case class Attempt(shuffleId: Int, mapIndex: Int, mapId: Long)

  /** Some 100 KB. A stage so old has no task left, or one whose space goes with the shuffle. */
  private val MaxStages = 1000

  /** More than an executor has at a time. What many lose at once goes with the shuffle. */
  private val MaxWaiting = 4000
}
