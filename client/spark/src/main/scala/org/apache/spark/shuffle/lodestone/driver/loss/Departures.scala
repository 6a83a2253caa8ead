// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import scala.concurrent.{ExecutionContext, Future}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.plans.{Shuffle, Shuffles}
import org.apache.spark.shuffle.lodestone.driver.services.{Removals, Service, ServiceDirectory}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * A service that is drained gets no more data of remote shuffles, and is released from those that other
 * services have as well. All calls are events of the loop.
 */
private[driver] final class Departures(
    shuffles: Shuffles,
    outputs: LostOutputs,
    directory: ServiceDirectory,
    client: ServiceClient,
    removals: Removals,
    loop: EventLoop) {
  private val log = LoggerFactory.getLogger(classOf[Departures])
  private implicit val events: ExecutionContext = loop.context

  def leaves(service: Service): Unit = {
    val leaving = service.location
    for (shuffle <- shuffles.all if !shuffle.keepsOriginals && shuffle.uses(leaving)) {
      shuffle.avoid(leaving)
      def stays(other: ServiceLocation): Boolean =
        shuffle.uses(other) && other != leaving && directory.isServing(other)
      val others = shuffle.services.filter(stays)
      if (outputs.isWholeAt(shuffle, others)) {
        val id = shuffle.id
        servicesWith(id, others).foreach { there =>
          val isSame = !shuffle.removed && shuffle.id == id && shuffle.uses(leaving)
          if (isSame && outputs.isWholeAt(shuffle, there)) release(shuffle, leaving)
        }
      }
    }
  }

  /** Asks now: the answer to the last renewal of a lease may be half a minute old. */
  private def servicesWith(
      id: ShuffleGeneration,
      services: Set[ServiceLocation]): Future[Set[ServiceLocation]] =
    Future
      .traverse(services.toSeq) { service =>
        client
          .known(service, id)
          .map(_ => Some(service))
          .recover { case failure =>
            log.warn(s"${service.hostPort} does not show $id: ${failure.getMessage}")
            None
          }
      }
      .map(_.flatten.toSet)

  private def release(shuffle: Shuffle, leaving: ServiceLocation): Unit = {
    log.info(s"${leaving.hostPort} leaves, and all of ${shuffle.id} is elsewhere as well")
    shuffle.release(leaving)
    removals(leaving, shuffle.id)
  }
}
