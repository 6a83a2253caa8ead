// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.ExecutionContext
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.config.{HostPort, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Load, RefusedException}

private[driver] final class Service(val address: HostPort) {
  import Service._

  var incarnation: Long = NoIncarnation
  var state: State = Unknown
  var checkedAtMs: Long = Long.MinValue
  var load: Option[Load] = None
  var failures: Int = 0
  var asking: Boolean = false

  /** It is asked although it failed lately: no plan that can do without it waits for the answer. */
  var onProbation: Boolean = false

  def isAwaited: Boolean = asking && !onProbation

  /** The name that the service has for what fails together with its host, once it has answered. */
  var label: String = ""

  /** What fails as a whole with the service: its host, as far as is known. */
  def zone: String = if (hasNamedZone) label else address.host

  def hasNamedZone: Boolean = label.nonEmpty

  def location: ServiceLocation = ServiceLocation(address.host, address.port, incarnation)
}

private[driver] object Service {

  /** The service never answered. */
  val NoIncarnation = 0L

  sealed abstract class State(val name: String)
  case object Unknown extends State("unknown")
  case object Serving extends State("serving")
  case object Unwilling extends State("unwilling")
  case object Suspect extends State("suspect")
}

/**
 * Knows which services can be used. It asks each service before it gets work. An answer is valid
 * for some time, and a missing answer too: one that failed is asked as often as others, since it
 * may be back, and the one that serves now may be the next to restart.
 */
private[driver] final class ServiceDirectory(
    source: AddressSource,
    client: ServiceClient,
    loop: EventLoop) extends Logged {
  import Service.NoIncarnation
  import ServiceDirectory._

  private implicit val events: ExecutionContext = loop.context
  private val services = mutable.LinkedHashMap.empty[HostPort, Service]
  private val settling = mutable.LinkedHashSet.empty[EnoughAnswers]

  /** Calls back once with the services that serve, in a fixed order. */
  def live(found: Seq[Service] => Unit): Unit = source.addresses { addresses =>
    val candidates = addresses.distinct.take(MaxServices).map(known)
    forgetOthers(candidates)
    val (probed, others) = candidates.filter(isDue).partition(isAvoided)
    others.foreach(hello)
    // Many dead hosts must not keep the few threads that connect from the living ones.
    val room = MaxProbes - services.values.count(s => s.asking && s.onProbation)
    probed.sortBy(_.checkedAtMs).take(room).foreach(hello)
    settle(candidates, found)
  }

  /** Connects to a service before it is needed: a daemon without connections may end. */
  def greet(address: HostPort): Unit = Some(known(address)).filter(isDue).foreach(hello)

  def all: Seq[Service] = services.values.toSeq

  /**
   * Records that a request to the service failed. The class of the failure shows whether the
   * service is at fault.
   */
  def failed(service: Service, failure: Throwable): Unit = {
    service.checkedAtMs = loop.nowMs
    failure match {
      case refused: RefusedException => recordIncarnation(service, refused.refusal.incarnation)
      case _ => // no incarnation is known
    }
    val action = FailureClass.of(failure).action
    if (action.penalty) {
      service.state = Service.Suspect
      if (!service.onProbation) service.failures += 1
      if (service.failures >= MaxFailures) source.givenUp(service.address)
    } else if (!action.newShuffles) {
      service.state = Service.Unwilling
    }
  }

  /** True if the service served at its last answer. */
  def isServing(location: ServiceLocation): Boolean = services.get(location.address).exists {
    service =>
      service.state == Service.Serving && service.incarnation == location.incarnation
  }

  /**
   * Makes the directory ask the service again before it gets work, because an executor had trouble
   * with it.
   */
  def doubt(location: ServiceLocation): Unit =
    services.get(location.address).foreach(_.state = Service.Unknown)

  /** Records an answer of the service, which may have restarted. */
  def answered(service: Service, incarnation: Long, load: Load): Unit = {
    recordIncarnation(service, incarnation)
    service.state = if (load.serving) Service.Serving else Service.Unwilling
    service.load = Some(load)
    service.checkedAtMs = loop.nowMs
    service.failures = 0
    service.onProbation = false
  }

  private def recordIncarnation(service: Service, incarnation: Long): Unit = {
    if (service.incarnation != NoIncarnation && service.incarnation != incarnation) {
      log.warn(s"${service.address} was restarted, and may have lost what it held")
    }
    service.incarnation = incarnation
  }

  /** Forgets services that do not answer and whose address is no longer offered. */
  private def forgetOthers(candidates: Seq[Service]): Unit = {
    val offered = candidates.toSet
    val gone = services.values.filter(s => s.state == Service.Suspect && !offered.contains(s))
    services --= gone.map(_.address).toSeq
  }

  private def known(address: HostPort): Service =
    services.getOrElseUpdate(address, new Service(address))

  private def isDue(service: Service): Boolean = !service.asking && (service.state match {
    case Service.Unknown => true
    case _ => loop.nowMs - service.checkedAtMs >= TrustMs
  })

  private def isAvoided(service: Service): Boolean = client.health.isSuspect(service.address)

  private def hello(service: Service): Unit = {
    service.asking = true
    service.onProbation = isAvoided(service)
    client.hello(service.address).onComplete { outcome =>
      service.asking = false
      outcome match {
        case Success(reply) =>
          service.label = reply.zone
          answered(service, reply.incarnation, reply.load)
        case Failure(failure) =>
          failed(service, failure)
          // The log has it already.
          if (!service.onProbation) log.warn(
            s"The shuffle service ${service.address} cannot be used: ${failure.getMessage}")
      }
      settling.toSeq.foreach(_.look())
    }
  }

  private def settle(candidates: Seq[Service], found: Seq[Service] => Unit): Unit = {
    def serving = candidates.filter(s => s.state == Service.Serving && !s.asking)
    def isAwaited = candidates.exists(_.isAwaited)
    def isOnProbation = candidates.exists(s => s.asking && s.onProbation)
    lazy val answers: EnoughAnswers = new EnoughAnswers(
      loop,
      () => !isAwaited && (serving.nonEmpty || !isOnProbation),
      () => serving.nonEmpty || !isAwaited)({
      settling -= answers
      found(serving)
    })
    settling += answers
    answers.begin()
  }
}

private[driver] object ServiceDirectory {
  private val TrustMs = 10000L

  /**
   * After so many failures in a row an embedded address is forgotten. It can be announced again.
   */
  private val MaxFailures = 3

  /** Services that failed lately and are asked again at the same time. */
  private val MaxProbes = 16

  /** More services than a driver should ask before it makes a plan. */
  private val MaxServices = 1000
}
