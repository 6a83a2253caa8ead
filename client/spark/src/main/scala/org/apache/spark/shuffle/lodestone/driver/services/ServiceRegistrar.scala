// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.ExecutionContext
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.ShuffleMode

/** A generation, as services register it. */
private[driver] final case class Registration(
    id: ShuffleGeneration,
    mode: ShuffleMode,
    numMaps: Int,
    numPartitions: Int,
    format: BlockFormat)

/**
 * Registers a shuffle with services. A service that is slow while others have accepted stays out,
 * because map tasks wait for the plan.
 */
private[driver] final class ServiceRegistrar(
    directory: ServiceDirectory,
    leases: LeaseKeeper,
    client: ServiceClient,
    loop: EventLoop) extends Logged {
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
      registered: Seq[ServiceLocation] => Unit): Unit = {
    val (old, fresh) = chosen.partition(service => known.contains(service.location))
    val accepted = mutable.HashMap(old.map(service => service -> service.location): _*)
    var unanswered = fresh.size
    val answers = new EnoughAnswers(loop, () => unanswered == 0, () => accepted.nonEmpty)(
      registered(chosen.flatMap(accepted.get(_))))
    def register(location: ServiceLocation) = client.registerShuffle(
      location,
      shuffle.id,
      shuffle.numMaps,
      shuffle.numPartitions,
      shuffle.mode,
      shuffle.format)
    for (service <- fresh; location = service.location) register(location).onComplete { outcome =>
      unanswered -= 1
      outcome match {
        case Success(_) if answers.isOver => late(location)
        case Success(_) =>
          leases.keep(service)
          accepted.put(service, location)
        case Failure(failure) =>
          directory.failed(service, failure)
          log.warn(s"${service.address} takes no part in ${shuffle.id}: ${failure.getMessage}")
      }
      answers.look()
    }
    answers.begin()
  }
}
