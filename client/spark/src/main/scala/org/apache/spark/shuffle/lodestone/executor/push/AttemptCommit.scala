// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.plan.{Reason, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{SameThread, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Ledger, RefusedException}

/**
 * The end of a map attempt whose output its executor keeps. Each service that has acknowledged
 * segments of it compares them with the ledger, and shows them to readers. A service that does not
 * confirm costs its blocks, which are read from the original.
 */
private[push] final class AttemptCommit(
    map: MapOutput,
    plan: ShufflePlan,
    client: ServiceClient,
    ledger: PushLedger) {
  import AttemptCommit.log

  /** Calls back once, when each service has answered, or will not. */
  def start(whenOver: () => Unit): Unit = {
    implicit val sameThread: SameThread.type = SameThread
    ledger.unknown.foreach { index =>
      ledger.notCommitted(index, Reason.PushConnection)
      drop(index)
    }
    Future
      .traverse(ledger.known) { case (index, acknowledged) => commit(index, acknowledged) }
      .onComplete(_ => whenOver())
  }

  /** Also at a service that failed a moment ago: otherwise all that it has acknowledged would be lost. */
  private def commit(index: Int, acknowledged: Ledger): Future[Unit] = {
    val service = plan.services(index)
    client
      .commitMap(service, map.generation, map.mapIndex, map.mapId, acknowledged)
      .transform {
        case Success(_) => Success(())
        case Failure(cause) =>
          val what = s"${service.hostPort} does not show map ${map.mapIndex} of ${map.generation}"
          cause match {
            case refused: RefusedException => log.info(s"$what: ${refused.getMessage}")
            case lost => log.warn(s"$what: ${lost.getMessage}")
          }
          ledger.notCommitted(index, PushReason.of(cause))
          // If only the answer was lost, readers may have seen the attempt: they take originals then.
          drop(index)
          Success(())
      }(SameThread)
  }

  /** The service gives the memory back. If it does not answer, this happens when the shuffle ends. */
  private def drop(index: Int): Unit = {
    val service = plan.services(index)
    if (!client.isSuspect(service)) {
      client.abortMap(service, map.generation, map.mapIndex, map.mapId)
      ()
    }
  }
}

private[push] object AttemptCommit {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[AttemptCommit])
}
