// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/** What the driver would say now; `changes` grows when that becomes something else. */
private[driver] trait Reported {
  def changes: Long
  def text: String
}

/**
 * Tells a few of the services in use what became of the shuffles, for people who ask them
 * (`lodestone explain`). Best effort: nothing waits for it but the end, a moment.
 */
private[driver] final class ReportSender(
    reported: Reported,
    client: ServiceClient,
    loop: EventLoop) {
  import ReportSender._

  private val log = LoggerFactory.getLogger(classOf[ReportSender])
  private implicit val events: ExecutionContext = loop.context

  /** What each holder was told: its life then, and our state. */
  private val holders = mutable.LinkedHashMap.empty[Service, (Long, Long)]

  def holderNames: Seq[String] = holders.keys.map(_.address.toString).toSeq

  /** The application uses this service. */
  def used(service: Service): Unit =
    if (holders.size < MaxHolders && !holders.contains(service)) {
      holders.put(service, NeverTold)
      if (holders.size == 1) again()
    }

  /** The last report. Completes when every holder has answered or failed. */
  def tellEnd(): Future[Unit] = tell(holders.keys.toSeq, ended = true)

  private def again(): Unit = loop.later(IntervalMs) {
    val behind = holders.collect {
      case (service, told) if told != stateFor(service) => service
    }
    if (behind.nonEmpty) tell(behind.toSeq, ended = false)
    again()
  }

  private def stateFor(service: Service): (Long, Long) =
    (service.incarnation, reported.changes)

  private def tell(services: Seq[Service], ended: Boolean): Future[Unit] = {
    val text = reported.text
    val tellings = services.map { service =>
      holders.put(service, stateFor(service))
      val told = client.reportApplication(service.location, ended, text).map(_ => ())
      told.recover { case failure =>
        holders.put(service, NeverTold)
        log.debug(s"${service.address} was not told the report: ${failure.getMessage}")
      }
    }
    Future.sequence(tellings).map(_ => ())
  }
}

private[driver] object ReportSender {

  /** Enough that one of them lives; `lodestone explain` tells people this number. */
  private val MaxHolders = 3
  private val IntervalMs = 5000L
  private val NeverTold = (Service.NoLife, -1L)
}
