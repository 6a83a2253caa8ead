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
  private val keepers = mutable.LinkedHashMap.empty[Service, (Long, Long)]

  def keeperNames: Seq[String] = keepers.keys.map(_.address.toString).toSeq

  /** The application uses this service. */
  def used(service: Service): Unit =
    if (keepers.size < MaxKeepers && !keepers.contains(service)) {
      keepers.put(service, NeverSent)
      if (keepers.size == 1) again()
    }

  /** The last report. Completes when every holder has answered or failed. */
  def sendLast(): Future[Unit] = send(keepers.keys.toSeq, ended = true)

  private def again(): Unit = loop.later(IntervalMs) {
    val behind = keepers.collect {
      case (service, sent) if sent != stateFor(service) => service
    }
    if (behind.nonEmpty) send(behind.toSeq, ended = false)
    again()
  }

  private def stateFor(service: Service): (Long, Long) =
    (service.incarnation, reported.changes)

  private def send(services: Seq[Service], ended: Boolean): Future[Unit] = {
    val text = reported.text
    val sends = services.map { service =>
      keepers.put(service, stateFor(service))
      val sent = client.reportApplication(service.location, ended, text).map(_ => ())
      sent.recover { case failure =>
        keepers.put(service, NeverSent)
        log.debug(s"${service.address} was not told the report: ${failure.getMessage}")
      }
    }
    Future.sequence(sends).map(_ => ())
  }
}

private[driver] object ReportSender {

  /** Enough that one of them lives; `lodestone explain` tells people this number. */
  private val MaxKeepers = 3
  private val IntervalMs = 5000L
  private val NeverSent = (Service.NoIncarnation, -1L)
}
