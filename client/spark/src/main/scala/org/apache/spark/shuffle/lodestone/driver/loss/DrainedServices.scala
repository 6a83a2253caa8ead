// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import scala.concurrent.{ExecutionContext, Future}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.plans.{Shuffle, Shuffles}
import org.apache.spark.shuffle.lodestone.driver.services.{Removals, Service, ServiceDirectory}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * Stops pushes of remote shuffles to a service that is drained, and releases it from shuffles that
 * other services have completely. All calls are events of the loop.
 */
private[driver] final class DrainedServices(
    shuffles: Shuffles,
    outputs: LostOutputs,
    directory: ServiceDirectory,
    client: ServiceClient,
    removals: Removals,
    loop: EventLoop) extends Logged {
  private implicit val events: ExecutionContext = loop.context

  def drained(service: Service): Unit = {
    val location = service.location
    for (shuffle <- shuffles.all if !shuffle.keepsOriginals && shuffle.uses(location)) {
      shuffle.avoid(location)
      def stays(other: ServiceLocation): Boolean =
        shuffle.uses(other) && other != location && directory.isServing(other)
      val others = shuffle.services.filter(stays)
      if (outputs.isWholeAt(shuffle, others)) {
        val id = shuffle.id
        servicesWith(id, others).foreach { there =>
          val isSame = !shuffle.removed && shuffle.id == id && shuffle.uses(location)
          if (isSame && outputs.isWholeAt(shuffle, there)) release(shuffle, location)
        }
      }
    }
  }

  /**
   * Returns the services that know the generation. It asks them now, because the last renewal of a
   * lease may be half a minute old.
   */
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

  private def release(shuffle: Shuffle, drained: ServiceLocation): Unit = {
    log.info(s"${drained.hostPort} is drained, and other services have all of ${shuffle.id}")
    shuffle.release(drained)
    removals(drained, shuffle.id)
  }
}
