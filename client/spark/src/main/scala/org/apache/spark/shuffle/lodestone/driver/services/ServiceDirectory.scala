// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.ExecutionContext
import scala.util.{Failure, Success}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Load, RefusedException}

/** What the driver knows of one service. */
private[driver] final class Service(val address: HostPort) {
  import Service._

  var incarnation: Long = NoIncarnation
  var state: State = Unknown
  var checkedAtMs: Long = Long.MinValue

  /** What it last said of itself. */
  var load: Option[Load] = None
  var failures: Int = 0

  /** A Hello is under way. */
  var asking: Boolean = false

  def location: ServiceLocation = ServiceLocation(address.host, address.port, incarnation)
}

private[driver] object Service {

  /** It never answered. */
  val NoIncarnation = 0L

  sealed abstract class State(val name: String)
  case object Unknown extends State("unknown")
  case object Serving extends State("serving")
  case object Unwilling extends State("unwilling")
  case object Suspect extends State("suspect")
}

/**
 * The services that can be used now: each is asked before it gets work, and its answer counts for a
 * while; so does its silence.
 */
private[driver] final class ServiceDirectory(
    source: AddressSource,
    client: ServiceClient,
    loop: EventLoop) {
  import Service.NoIncarnation
  import ServiceDirectory._

  private val log = LoggerFactory.getLogger(classOf[ServiceDirectory])
  private implicit val events: ExecutionContext = loop.context
  private val services = mutable.LinkedHashMap.empty[HostPort, Service]
  private val settling = mutable.LinkedHashSet.empty[Settling]

  /** Calls back once with those that serve, in an order that does not change. */
  def live(found: Seq[Service] => Unit): Unit = source.addresses { addresses =>
    val candidates = addresses.distinct.take(MaxServices).map(known)
    forgetOthers(candidates)
    candidates.filter(isDue).foreach(hello)
    new Settling(candidates, found).look()
  }

  /** Connects to a service before it is needed: one to which nobody is connected may go away. */
  def greet(hostPort: String): Unit =
    HostPort.parse(hostPort).map(known).filter(isDue).foreach(hello)

  def all: Seq[Service] = services.values.toSeq

  def find(hostPort: String): Option[Service] = HostPort.parse(hostPort).flatMap(services.get)

  /** A request to it failed: whether that says anything of the service, its class knows. */
  def failed(service: Service, failure: Throwable): Unit = {
    service.checkedAtMs = loop.nowMs
    failure match {
      case refused: RefusedException => recordIncarnation(service, refused.refusal.incarnation)
      case _ => // it said nothing
    }
    val action = FailureClass.of(failure).action
    if (action.penalty) {
      service.state = Service.Suspect
      service.failures += 1
      if (service.failures >= MaxFailures) source.givenUp(service.address)
    } else if (!action.newShuffles) {
      service.state = Service.Unwilling
    }
  }

  def failed(location: ServiceLocation, failure: Throwable): Unit =
    find(location.hostPort).foreach(failed(_, failure))

  /** As far as it said when it was last asked. */
  def isServing(location: ServiceLocation): Boolean = find(location.hostPort).exists { service =>
    service.state == Service.Serving && service.incarnation == location.incarnation
  }

  /** An executor could not do without it any longer: it is asked again before it gets more work. */
  def doubt(location: ServiceLocation): Unit =
    find(location.hostPort).foreach(_.state = Service.Unknown)

  /** It answered: with the incarnation we know, or it was started again. */
  def answered(service: Service, incarnation: Long, load: Load): Unit = {
    recordIncarnation(service, incarnation)
    service.state = if (load.serving) Service.Serving else Service.Unwilling
    service.load = Some(load)
    service.checkedAtMs = loop.nowMs
    service.failures = 0
  }

  private def recordIncarnation(service: Service, incarnation: Long): Unit = {
    if (service.incarnation != NoIncarnation && service.incarnation != incarnation) {
      log.warn(s"${service.address} was restarted: what it had merged is read from the originals")
    }
    service.incarnation = incarnation
  }

  /** Addresses come and go; one that is not offered any more and does not answer is gone. */
  private def forgetOthers(candidates: Seq[Service]): Unit = {
    val offered = candidates.toSet
    val gone = services.values.filter(s => s.state == Service.Suspect && !offered.contains(s))
    services --= gone.map(_.address).toSeq
  }

  private def known(address: HostPort): Service =
    services.getOrElseUpdate(address, new Service(address))

  private def isDue(service: Service): Boolean = !service.asking && (service.state match {
    case Service.Unknown => true
    case Service.Suspect => !client.health.isSuspect(service.address)
    case Service.Serving | Service.Unwilling => loop.nowMs - service.checkedAtMs >= TrustMs
  })

  private def hello(service: Service): Unit = {
    service.asking = true
    client.hello(service.address).onComplete { outcome =>
      service.asking = false
      outcome match {
        case Success(reply) => answered(service, reply.incarnation, reply.load)
        case Failure(failure) =>
          failed(service, failure)
          log.warn(s"The shuffle service ${service.address} cannot be used: ${failure.getMessage}")
      }
      settling.toSeq.foreach(_.look())
    }
  }

  /** One who waits until every candidate has answered, or some have and the others are slow. */
  private final class Settling(candidates: Seq[Service], found: Seq[Service] => Unit) {
    private var waitsForAll = true
    settling += this
    loop.later(GraceMs) {
      waitsForAll = false
      look()
    }

    def look(): Unit = if (settling.contains(this)) {
      val serving = candidates.filter(s => s.state == Service.Serving && !s.asking)
      if (candidates.forall(!_.asking) || (!waitsForAll && serving.nonEmpty)) {
        settling -= this
        found(serving)
      }
    }
  }
}

private[driver] object ServiceDirectory {

  /** How long an answer counts. */
  private val TrustMs = 10000L

  /** When some services answered, the others have this long: a plan must not wait for the dead. */
  private val GraceMs = 1000L

  /** Failures in a row after which an address is forgotten where it can be announced again. */
  private val MaxFailures = 3

  /** More than a driver wants to ask before it makes a plan. */
  private val MaxServices = 1000
}
