// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}
import scala.util.{Failure, Success}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, ServiceClient}

/**
 * Tells every service in use that the application lives, at a third of what each grants, and at the
 * end that it does not; learns so how it is.
 */
private[driver] final class LeaseKeeper(
    conf: LodestoneConf,
    directory: ServiceDirectory,
    client: ServiceClient,
    reports: ReportSender,
    heardOf: Service => Unit,
    loop: EventLoop) {
  import LeaseKeeper._

  private val log = LoggerFactory.getLogger(classOf[LeaseKeeper])
  private implicit val events: ExecutionContext = loop.context

  /** Those in use, and when they last said that they know us. */
  private val kept = mutable.LinkedHashMap.empty[Service, Long]

  /** Begins at once: what a service grants unasked may be shorter than our interval. */
  def keep(service: Service): Unit = if (!kept.contains(service)) {
    kept.put(service, loop.nowMs)
    renew(service)
    reports.used(service)
  }

  /** The application is over: all that it has goes. Completes when each has answered or failed. */
  def endAll(): Future[Unit] = {
    val services = kept.keys.toSeq
    kept.clear()
    Future
      .traverse(services) { service =>
        client.endApplication(service.location).map(_ => ()).recover(endNotSent(service))
      }
      .map(_ => ())
  }

  private def endNotSent(service: Service): PartialFunction[Throwable, Unit] = { case failure =>
    log.warn(s"${service.address} will learn from its lease that the application ended: " +
      failure.getMessage)
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

  /** It says so, or must have after so much silence: what else failed there meanwhile says nothing. */
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

  /** The least that the protocol lets a service grant. */
  private val MinTtlMs = 10000L
}
