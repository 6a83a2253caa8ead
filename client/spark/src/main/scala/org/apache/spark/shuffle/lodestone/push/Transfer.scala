// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import java.io.IOException

import scala.util.{Failure, Success, Try}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.MergePlan
import org.apache.spark.shuffle.lodestone.transport.{
  RequestTimer,
  RequestTimeoutException,
  SameThread,
  ServiceClient
}
import org.apache.spark.shuffle.lodestone.wire.{Advice, PushBatchReply, RefusedException, Status}

/**
 * One request under way. It is repeated once, as a whole, where that can help: segments that have
 * arrived before are duplicates then. `whenOver` is called once, when the bytes are not needed any
 * more.
 */
private[push] final class Transfer(
    map: MapOutput,
    merge: MergePlan,
    serviceIndex: Int,
    body: PushBody,
    client: ServiceClient,
    shuffle: ShufflePush,
    ledger: PushLedger,
    whenOver: () => Unit) {
  import Transfer._

  private val log = LoggerFactory.getLogger(classOf[Transfer])
  private val service = merge.services(serviceIndex)

  def start(): Unit = send(repeats = 0)

  private def send(repeats: Int): Unit = {
    ledger.sent()
    client
      .pushBatch(service, map.generation, map.mapIndex, map.mapId, body.segments, body.buffer)
      .onComplete { outcome =>
        pauseBeforeRepeat(outcome).filter(_ => repeats < MaxRepeats && !shuffle.removed) match {
          case Some(pauseMs) => RequestTimer.after(pauseMs)(send(repeats + 1))
          case None =>
            try settle(outcome)
            finally whenOver()
        }
      }(SameThread)
  }

  /** None: to repeat the request would be pointless. */
  private def pauseBeforeRepeat(outcome: Try[PushBatchReply]): Option[Long] = outcome match {
    case Success(reply) => reply.statuses.find(_.advice == Advice.Retry).map(_ => PauseMs)
    case Failure(refused: RefusedException) =>
      if (refused.status.advice == Advice.Retry) Some(PauseMs) else None
    case Failure(_: RequestTimeoutException) => None
    case Failure(_: IOException) => Some(0)
    case Failure(_) => None
  }

  private def settle(outcome: Try[PushBatchReply]): Unit = outcome match {
    case Success(reply) =>
      reply.statuses.zip(body.segments).foreach { case (status, segment) =>
        if (status.advice == Advice.GoOn) {
          ledger.pushed(serviceIndex, segment)
        } else {
          ledger.failed(PushReason.of(status), 1)
          heed(status)
        }
      }
    case Failure(failure) =>
      ledger.failed(PushReason.of(failure), body.segments.length)
      failure match {
        case refused: RefusedException =>
          log.info(s"$blocksAtService were refused: ${refused.getMessage}")
          heed(refused.status)
        case lost => // the client has made the service suspect
          log.warn(s"$blocksAtService were not taken: ${lost.getMessage}")
      }
  }

  private def blocksAtService: String = s"Blocks of ${map.generation} at ${service.hostPort}"

  private def heed(status: Status): Unit = {
    val reason: Reason = PushReason.of(status)
    if (PushReason.endsMap(status)) {
      ledger.stop(reason)
    } else if (status.advice == Advice.Reroute || status.advice == Advice.Fatal) {
      shuffle.giveUp(serviceIndex, reason)
    }
  }
}

private[push] object Transfer {
  private val MaxRepeats = 1

  /** Long enough for a service at its limit to write some MiB. */
  private val PauseMs = 100L
}
