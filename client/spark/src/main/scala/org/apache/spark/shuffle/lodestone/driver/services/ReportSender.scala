// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * Sends the report to a few of the services in use, where `lodestone explain` finds it. This is
 * best effort: only the end of the application waits for it, for a moment.
 *
 * @param changes
 *   grows with each change of the report
 */
private[driver] final class ReportSender(
    changes: () => Long,
    report: () => String,
    client: ServiceClient,
    loop: EventLoop) extends Logged {
  import ReportSender._

  private implicit val events: ExecutionContext = loop.context

  /** The services that keep the report: their incarnation and our state at the last report. */
  private val keepers = mutable.LinkedHashMap.empty[Service, (Long, Long)]

  def keeperNames: Seq[String] = keepers.keys.map(_.address.toString).toSeq

  /** Adds a service that the application uses. */
  def used(service: Service): Unit =
    if (keepers.size < MaxKeepers && !keepers.contains(service)) {
      keepers.put(service, NeverSent)
      if (keepers.size == 1) again()
    }

  /** Sends the last report. Completes when every service has answered or failed. */
  def sendLast(): Future[Unit] = send(keepers.keys.toSeq, ended = true)

  private def again(): Unit = loop.later(IntervalMs) {
    val behind = keepers.collect {
      case (service, sent) if sent != stateFor(service) => service
    }
    if (behind.nonEmpty) send(behind.toSeq, ended = false)
    again()
  }

  private def stateFor(service: Service): (Long, Long) =
    (service.incarnation, changes())

  private def send(services: Seq[Service], ended: Boolean): Future[Unit] = {
    val text = report()
    val sends = services.map { service =>
      keepers.put(service, stateFor(service))
      val sent = client.reportApplication(service.location, ended, text).map(_ => ())
      sent.recover { case failure =>
        keepers.put(service, NeverSent)
        log.debug(s"The report did not reach ${service.address}: ${failure.getMessage}")
      }
    }
    Future.sequence(sends).map(_ => ())
  }
}

private[driver] object ReportSender {

  /** Enough that one of them stays alive. The help of `lodestone explain` names this number. */
  private val MaxKeepers = 3
  private val IntervalMs = 5000L
  private val NeverSent = (Service.NoIncarnation, -1L)
}
