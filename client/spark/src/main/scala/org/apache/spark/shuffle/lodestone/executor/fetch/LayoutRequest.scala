// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.TimeoutException

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationLong

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.{SameThread, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, PartitionLayout}

/** The layouts of a task's partitions, and why those that are missing are. */
private[fetch] final case class Layouts(
    known: Seq[(ServiceLocation, PartitionLayout)],
    missing: Map[Int, Reason])

/** Asks each service for the layout of the partitions that it holds, all at the same time. */
private[fetch] final class LayoutRequest(client: ServiceClient) {
  import LayoutRequest._

  /**
   * @param partitions
   *   those that have blocks: a task may read millions of them of which few have
   * @param blocks
   *   how many blocks the task reads in all
   */
  def ask(
      generation: ShuffleGeneration,
      plan: ShufflePlan,
      maps: MapRange,
      partitions: Seq[Int],
      blocks: Int): Layouts = {
    val perPartition = math.max(1, blocks / math.max(1, partitions.size))
    val perRequest = math.max(1, MaxSegments / perPartition)
    val asked = for {
      (index, reduceIds) <- partitions.groupBy(plan.groupOf(plan.newest, _)).toSeq
      part <- reduceIds.grouped(perRequest)
    } yield askOne(generation, plan.services(index), maps, part.toArray, part.size * perPartition)
    val answers = gather(asked)
    val known = answers.flatMap(_.known)
    val silent = partitions.toSet -- known.map(_._2.reduceId) -- answers.flatMap(_.missing.keys)
    Layouts(known, answers.flatMap(_.missing).toMap ++ silent.map(_ -> Reason.LayoutFailed))
  }

  private def askOne(
      generation: ShuffleGeneration,
      service: ServiceLocation,
      maps: MapRange,
      reduceIds: Array[Int],
      segments: Int): Future[Layouts] =
    if (client.isSuspect(service)) {
      Future.successful(missing(reduceIds, Reason.FetchSuspect))
    } else {
      client
        .layout(service, generation, maps, reduceIds, segments)
        .map(reply => Layouts(reply.partitions.toSeq.map(service -> _), Map.empty))(SameThread)
        .recover { case failure =>
          log.warn(
            s"${service.hostPort} did not tell the layout of $generation: ${failure.getMessage}")
          missing(reduceIds, ReadReason.of(failure, otherwise = Reason.LayoutFailed))
        }(SameThread)
    }

  private def missing(reduceIds: Array[Int], reason: Reason): Layouts =
    Layouts(Nil, reduceIds.map(_ -> reason).toMap)

  /** Each request ends by itself; the wait here is for the case that the timer is late. */
  private def gather(asked: Seq[Future[Layouts]]): Seq[Layouts] =
    try {
      implicit val context: SameThread.type = SameThread
      Await.result(
        Future.sequence(asked),
        (client.longestLayoutMs(MaxSegments) + GraceMs).millis)
    } catch {
      case _: TimeoutException => asked.flatMap(_.value).flatMap(_.toOption)
    }
}

private[fetch] object LayoutRequest {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[LayoutRequest])

  /** About so many segments in one answer, some MB; a service refuses several times as many. */
  val MaxSegments = 100000

  private val GraceMs = 1000L
}
