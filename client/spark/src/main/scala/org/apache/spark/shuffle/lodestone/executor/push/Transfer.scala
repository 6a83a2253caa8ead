// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.util.{Failure, Success, Try}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.plan.{Reason, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, Pushes, SameThread}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{PushBatchReply, RefusedException, Status}

/**
 * One request under way, and what its end means for the blocks in it and for those to come.
 * `whenOver` is called once, when the bytes are not needed any more.
 */
private[push] final class Transfer(
    map: MapOutput,
    plan: ShufflePlan,
    request: PushRequest,
    body: PushBody,
    client: ServiceClient,
    shuffle: ShufflePush,
    ledger: PushLedger,
    whenOver: () => Unit) {
  import Transfer.log

  private val serviceIndex = request.serviceIndex
  private val service = plan.services(serviceIndex)

  /** There was a time when it was sent, and no answer came. */
  @volatile private var isUnanswered = false

  def start(): Unit =
    client
      .pushBatch(
        service,
        map.generation,
        map.mapIndex,
        map.mapId,
        body.segments,
        body.buffer,
        request.firstSegment,
        unanswered = () => isUnanswered = true)(ledger.sent())
      .onComplete { outcome =>
        try {
          if (!isKnown(outcome)) ledger.unknownAt(serviceIndex)
          settle(outcome)
        } finally whenOver()
      }(SameThread)

  /**
   * Whether it is known which of the blocks are there. A refusal does not say what came of the same request
   * before; and what is there in place of a block is not of this map.
   */
  private def isKnown(outcome: Try[PushBatchReply]): Boolean = outcome match {
    case Success(reply) if reply.statuses.forall(_.isSuccess) => true
    case Success(reply) => !isUnanswered && !reply.statuses.contains(Status.OtherContent)
    case Failure(_) => !isUnanswered
  }

  private def settle(outcome: Try[PushBatchReply]): Unit = outcome match {
    case Success(reply) =>
      reply.statuses.zip(body.segments).foreach { case (status, segment) =>
        if (status.isSuccess) ledger.pushed(serviceIndex, segment)
        else failed(PushReason.of(status), FailureClass.of(status), 1)
      }
    case Failure(failure) =>
      val what = s"Blocks of ${map.generation} at ${service.hostPort}"
      failure match {
        case refused: RefusedException => log.info(s"$what were refused: ${refused.getMessage}")
        case lost => log.warn(s"$what were not taken: ${lost.getMessage}")
      }
      failed(PushReason.of(failure), FailureClass.of(failure), body.segments.length)
  }

  private def failed(reason: Reason, failure: FailureClass, blocks: Int): Unit = {
    ledger.failed(reason, blocks)
    failure.action.pushes match {
      case Pushes.EndMap => ledger.stop(reason)
      case Pushes.LeaveService => shuffle.giveUp(serviceIndex, reason)
      case Pushes.GoOn =>
    }
  }
}

private[push] object Transfer {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[Transfer])
}
