// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.ExecutionContext
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.ShuffleMode

/** A generation, as services register it. */
private[driver] final case class Registration(
    id: ShuffleGeneration,
    mode: ShuffleMode,
    numMaps: Int,
    numPartitions: Int)

/**
 * Registers a shuffle with services. A service that is slow while others have accepted stays out,
 * because map tasks wait for the plan.
 */
private[driver] final class ServiceRegistrar(
    directory: ServiceDirectory,
    leases: LeaseKeeper,
    client: ServiceClient,
    loop: EventLoop) extends Logged {
  import ServiceRegistrar._

  private implicit val events: ExecutionContext = loop.context

  /**
   * Calls `registered` once, with the services that accepted, in the order of `chosen`.
   *
   * @param known
   *   services that accepted before. They are not asked again: a service that has lost the shuffle
   *   since would create it again, empty, and show readers nothing instead of an error
   * @param late
   *   is called with each service that accepts after `registered` was called
   */
  def apply(
      shuffle: Registration,
      chosen: Seq[Service],
      known: Set[ServiceLocation] = Set.empty)(late: ServiceLocation => Unit)(
      registered: Seq[ServiceLocation] => Unit): Unit =
    new Round(shuffle, chosen, known, late, registered).start()

  private final class Round(
      shuffle: Registration,
      chosen: Seq[Service],
      known: Set[ServiceLocation],
      late: ServiceLocation => Unit,
      registered: Seq[ServiceLocation] => Unit) {
    private val (old, fresh) = chosen.partition(service => known.contains(service.location))
    private val accepted = mutable.HashMap.empty[Service, ServiceLocation]
    private var unanswered = fresh.size
    private var waitsForAll = true
    private var over = false

    def start(): Unit = {
      old.foreach(service => accepted.put(service, service.location))
      fresh.foreach(register)
      look()
      loop.later(GraceMs) {
        waitsForAll = false
        look()
      }
    }

    private def register(service: Service): Unit = {
      val location = service.location
      client
        .registerShuffle(
          location,
          shuffle.id,
          shuffle.numMaps,
          shuffle.numPartitions,
          shuffle.mode)
        .onComplete { outcome =>
          unanswered -= 1
          outcome match {
            case Success(_) if over => late(location)
            case Success(_) =>
              leases.keep(service)
              accepted.put(service, location)
            case Failure(failure) =>
              directory.failed(service, failure)
              log.warn(
                s"${service.address} takes no part in ${shuffle.id}: ${failure.getMessage}")
          }
          look()
        }
    }

    private def look(): Unit =
      if (!over && (unanswered == 0 || (!waitsForAll && accepted.nonEmpty))) {
        over = true
        registered(chosen.flatMap(accepted.get))
      }
  }
}

private[driver] object ServiceRegistrar {

  /** The time for the others after one service has accepted. */
  private val GraceMs = 1000L
}
