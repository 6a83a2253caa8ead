// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import scala.collection.mutable.ArrayBuffer
import scala.concurrent.Future
import scala.util.{Failure, Success, Try}

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.shuffle.lodestone.executor.push.PushReason
import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, RetryPolicy, SameThread}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{PushBatchReply, Refused => RefusedReply}
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, Segment, Status}

/** What became of a batch at one service. */
private[remote] sealed trait Verdict

/** All of it is there. */
private[remote] case object Taken extends Verdict

/** Spark has given the attempt up, and the driver said so before this executor knew. */
private[remote] case object Dropped extends Verdict

private[remote] sealed trait NotTaken extends Verdict {
  def reason: Reason
}

/** Its first `count` segments are there, the others are not wanted; what is there stays. */
private[remote] final case class Refused(count: Int, reason: Reason) extends NotTaken

/** It is not known what is there, or nothing is there any more. */
private[remote] final case class Lost(reason: Reason) extends NotTaken

/** Segments of one group: a part of a body. */
private[remote] final case class BatchCut(version: Int, group: Int, from: Int, until: Int)

private[remote] object BatchCut {

  /** Where the group changes. */
  def apply(plan: ShufflePlan, segments: Array[Segment], from: Int, until: Int): Seq[BatchCut] = {
    val version = plan.newest
    val cuts = ArrayBuffer.empty[BatchCut]
    var start = from
    while (start < until) {
      val group = plan.groupOf(version, segments(start).reduceId)
      var end = start + 1
      while (end < until && plan.groupOf(version, segments(end).reduceId) == group) end += 1
      cuts += BatchCut(version, group, start, end)
      start = end
    }
    cuts.toSeq
  }
}

/** One batch for one service. It may be sent again and again: what was taken is a duplicate then. */
private[remote] final class BatchPush(
    attempt: MapAttempt,
    generation: ShuffleGeneration,
    firstSegment: Int,
    segments: Array[Segment]) {

  /** Of the last answer, how many segments the service has. */
  @volatile private var taken = 0

  /** Fails if it is worth another attempt. */
  def apply(client: ServiceClient, location: ServiceLocation, body: ManagedBuffer)(
      sending: => Unit): Future[PushBatchReply] =
    client
      .pushBatch(
        location,
        generation,
        attempt.mapIndex,
        attempt.mapId,
        segments,
        body,
        firstSegment)(sending)
      .transform {
        case Success(reply) =>
          taken = takenOf(reply)
          reply.statuses.lift(taken).filter(status =>
            RetryPolicy.isTransient(FailureClass.of(status))) match {
            case Some(passing) =>
              Failure(new RefusedException(RefusedReply(passing, reply.incarnation, "")))
            case None => Success(reply)
          }
        case failed => failed
      }(SameThread)

  /** When it is not sent any more. */
  def verdict(outcome: Try[PushBatchReply]): Verdict = outcome match {
    case Success(reply) =>
      val count = takenOf(reply)
      if (count == segments.length) Taken else verdict(count, reply.statuses(count))
    case Failure(refused: RefusedException) => verdict(taken, refused.status)
    case Failure(failure) => Lost(PushReason.of(failure))
  }

  private def verdict(count: Int, status: Status): Verdict = status match {
    case Status.Aborted => Dropped
    case other =>
      FailureClass.of(other) match {
        case FailureClass.ServiceBusy | FailureClass.ServiceDisk | FailureClass.ServiceDraining =>
          Refused(count, PushReason.of(other))
        case _ => Lost(PushReason.of(other))
      }
  }

  private def takenOf(reply: PushBatchReply): Int =
    reply.statuses.iterator.takeWhile(_.isSuccess).size
}
