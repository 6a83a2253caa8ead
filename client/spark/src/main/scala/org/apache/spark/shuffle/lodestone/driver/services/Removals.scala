// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.ExecutionContext

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient

/**
 * Tells services that a shuffle is over. One that cannot be reached is told when it is heard of again:
 * it may have been started anew with all that it had, and would keep it as long as the application lives.
 */
private[driver] final class Removals(client: ServiceClient, loop: EventLoop) {
  import Removals._

  private val log = LoggerFactory.getLogger(classOf[Removals])
  private implicit val events: ExecutionContext = loop.context
  private val unsent = mutable.LinkedHashSet.empty[(ServiceLocation, ShuffleGeneration)]

  def apply(service: ServiceLocation, id: ShuffleGeneration): Unit =
    client.removeShuffle(service, id).failed.foreach { failure =>
      log.debug(s"${service.hostPort} was not told that $id is over: ${failure.getMessage}")
      unsent += service -> id
      if (unsent.size > MaxUnsent) unsent -= unsent.head
    }

  /** It has answered. What another life of it had is gone. */
  def heardOf(service: ServiceLocation): Unit = {
    def isThere(known: ServiceLocation): Boolean =
      known.host == service.host && known.port == service.port
    val its = unsent.filter { case (location, _) => isThere(location) }.toSeq
    unsent --= its
    its.foreach { case (location, id) => if (location == service) apply(location, id) }
  }
}

private object Removals {

  /** What is beyond that goes with the application. */
  private val MaxUnsent = 10000
}
