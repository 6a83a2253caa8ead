// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, ServiceClient}

/**
 * Renews the leases at all services in use, after a third of the time that each service grants, and
 * ends them with the application. The answers have the state of the services.
 */
private[driver] final class LeaseKeeper(
    conf: LodestoneConf,
    directory: ServiceDirectory,
    client: ServiceClient,
    reports: ReportSender,
    heardOf: Service => Unit,
    loop: EventLoop) extends Logged {
  import LeaseKeeper._

  private implicit val events: ExecutionContext = loop.context

  /**
   * The services in use, and the time of the last answer that showed that a service knows the
   * application.
   */
  private val kept = mutable.LinkedHashMap.empty[Service, Long]

  /**
   * Begins at once, because the time that a service grants unasked may be shorter than our
   * interval.
   */
  def keep(service: Service): Unit = if (!kept.contains(service)) {
    kept.put(service, loop.nowMs)
    renew(service)
    reports.used(service)
  }

  /** Ends the application at all services. Completes when each has answered or failed. */
  def endAll(): Future[Unit] = {
    val services = kept.keys.toSeq
    kept.clear()
    Future
      .traverse(services) { service =>
        client.endApplication(service.location).map(_ => ()).recover { case failure =>
          log.warn(
            s"${service.address} keeps the ended application until its lease expires: " +
              failure.getMessage)
        }
      }
      .map(_ => ())
  }

  private def renew(service: Service): Unit = if (kept.contains(service)) {
    val anyIncarnation = service.location.copy(incarnation = AnyIncarnation)
    client.renewLease(anyIncarnation, conf.leaseTtlMs).onComplete {
      case Success(reply) =>
        directory.answered(service, reply.incarnation, reply.load)
        if (kept.contains(service)) kept.put(service, loop.nowMs)
        heardOf(service)
        again(service, math.max(reply.grantedTtlMs, MinTtlMs))
      case Failure(failure) =>
        directory.failed(service, failure)
        log.warn(s"The lease at ${service.address} was not renewed: ${failure.getMessage}")
        if (hasForgotten(service, failure)) kept -= service
        else again(service, conf.leaseTtlMs)
    }
  }

  /**
   * True if the service says so, or if it must have after so long a silence. Other failures there
   * mean nothing.
   */
  private def hasForgotten(service: Service, failure: Throwable): Boolean =
    FailureClass.of(failure) == FailureClass.MissingData ||
      kept.get(service).forall(loop.nowMs - _ > conf.leaseTtlMs)

  private def again(service: Service, ttlMs: Long): Unit =
    loop.later(ttlMs / RenewalsPerTtl)(renew(service))
}

private[driver] object LeaseKeeper {

  /** Two renewals may be lost. */
  private val RenewalsPerTtl = 3

  private val AnyIncarnation = 0L

  /** The shortest time that a service may grant by the protocol. */
  private val MinTtlMs = 10000L
}
