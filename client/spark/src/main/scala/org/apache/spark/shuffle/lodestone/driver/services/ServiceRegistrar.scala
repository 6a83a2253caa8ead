// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.ExecutionContext
import scala.util.{Failure, Success}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.ShuffleMode

/** A generation, as services are told of it. */
private[driver] final case class Registration(
    id: ShuffleGeneration,
    mode: ShuffleMode,
    numMaps: Int,
    numPartitions: Int)

/**
 * Registers a shuffle with services. One that is slow while others have accepted stays out: maps wait
 * for the plan.
 */
private[driver] final class ServiceRegistrar(
    directory: ServiceDirectory,
    leases: LeaseKeeper,
    client: ServiceClient,
    loop: EventLoop) {
  import ServiceRegistrar._

  private val log = LoggerFactory.getLogger(classOf[ServiceRegistrar])
  private implicit val events: ExecutionContext = loop.context

  /**
   * `registered` is called once, with those that accepted, in the order of `chosen`.
   *
   * @param known
   *   those that accepted before, and are not told again: one that has lost the shuffle since would begin
   *   it anew, and show readers nothing where there was something
   * @param late
   *   what to do about those that accept when the others were not kept waiting any more
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

  /** When some services accepted, the others have this long. */
  private val GraceMs = 1000L
}
