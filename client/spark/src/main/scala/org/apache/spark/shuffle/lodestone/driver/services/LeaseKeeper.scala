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
    isNeeded: Service => Boolean,
    loop: EventLoop) extends Logged {
  import LeaseKeeper._

  private implicit val events: ExecutionContext = loop.context

  /** The services with a lease. */
  private val kept = mutable.LinkedHashMap.empty[Service, Lease]

  /**
   * Begins at once, because the time that a service grants unasked may be shorter than our
   * interval.
   */
  def keep(service: Service): Unit = if (!kept.contains(service)) {
    kept.put(service, new Lease(loop.nowMs))
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
        kept.get(service).foreach(_.answered(loop.nowMs))
        heardOf(service)
        again(service, math.max(reply.grantedTtlMs, MinTtlMs))
      case Failure(failure) =>
        directory.failed(service, failure)
        if (kept.get(service).forall(_.failsFirst())) {
          log.warn(s"The lease at ${service.address} was not renewed: ${failure.getMessage}")
        }
        if (isOver(service, failure)) kept -= service
        else again(service, conf.leaseTtlMs)
    }
  }

  /**
   * True if the service says that it does not know the application, or if nothing needs it and it
   * must have forgotten it after so long a silence. One that was away may have all its data: it
   * gives each lease its whole time again, however long no daemon ran.
   */
  private def isOver(service: Service, failure: Throwable): Boolean =
    FailureClass.of(failure) == FailureClass.MissingData || !isNeeded(service) &&
      kept.get(service).forall(loop.nowMs - _.answeredMs > conf.leaseTtlMs)

  private def again(service: Service, ttlMs: Long): Unit =
    loop.later(ttlMs / RenewalsPerTtl)(renew(service))
}

private[driver] object LeaseKeeper {

  /** `answeredMs` is the time of the last answer that showed that the application is known. */
  private final class Lease(var answeredMs: Long) {
    private var isFailing = false

    def answered(nowMs: Long): Unit = {
      answeredMs = nowMs
      isFailing = false
    }

    /** Records a failure. Returns true for the first one since the last answer. */
    def failsFirst(): Boolean = {
      val isFirst = !isFailing
      isFailing = true
      isFirst
    }
  }

  /** Two renewals may be lost. */
  private val RenewalsPerTtl = 3

  private val AnyIncarnation = 0L

  /** The shortest time that a service may grant by the protocol. */
  private val MinTtlMs = 10000L
}
