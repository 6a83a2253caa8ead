// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.ExecutionContext

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * Sends removals of shuffles to services. A service that cannot be reached gets its removals when
 * it answers again: it may have been restarted with all its data, and would keep it until the
 * application ends.
 */
private[driver] final class Removals(client: ServiceClient, loop: EventLoop) extends Logged {
  import Removals._

  private implicit val events: ExecutionContext = loop.context
  private val unsent = mutable.LinkedHashSet.empty[(ServiceLocation, ShuffleGeneration)]

  def apply(service: ServiceLocation, id: ShuffleGeneration): Unit =
    client.removeShuffle(service, id).failed.foreach { failure =>
      log.debug(s"The removal of $id did not reach ${service.hostPort}: ${failure.getMessage}")
      unsent += service -> id
      if (unsent.size > MaxUnsent) unsent -= unsent.head
    }

  /** Sends removals again to a service that has answered. Another incarnation has lost its data. */
  def heardOf(service: ServiceLocation): Unit = {
    val its = unsent.filter { case (location, _) => location.address == service.address }.toSeq
    unsent --= its
    its.foreach { case (location, id) => if (location == service) apply(location, id) }
  }
}

private object Removals {

  /** Services remove further shuffles with the application. */
  private val MaxUnsent = 10000
}
