// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation}

/** The state of one generation on this executor while its map outputs are pushed. */
private[push] final class ShufflePush {
  private val withoutService = new ConcurrentHashMap[ServiceLocation, Reason]()

  @volatile var removed = false

  /** No more blocks of the shuffle are sent to this service. */
  def giveUp(service: ServiceLocation, reason: Reason): Unit =
    withoutService.putIfAbsent(service, reason)

  def givenUp(service: ServiceLocation): Option[Reason] = Option(withoutService.get(service))
}
