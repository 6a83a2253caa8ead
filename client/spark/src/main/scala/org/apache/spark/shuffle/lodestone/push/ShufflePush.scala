// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import java.util.concurrent.ConcurrentHashMap

import scala.concurrent.Future

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.DriverMessage

/** What this executor remembers of one generation while its maps are pushed. */
private[push] final class ShufflePush {
  private var planned: Option[Future[DriverMessage]] = None
  private val withoutService = new ConcurrentHashMap[Int, Reason]()

  @volatile var removed = false

  /** The driver is asked once; a question that failed is asked again for the next map. */
  def plan(ask: => Future[DriverMessage]): Future[DriverMessage] = synchronized {
    val answer = planned.filterNot(_.value.exists(_.isFailure)).getOrElse(ask)
    planned = Some(answer)
    answer
  }

  /** The shuffle does without this service. */
  def giveUp(serviceIndex: Int, reason: Reason): Unit =
    withoutService.putIfAbsent(serviceIndex, reason)

  def givenUp(serviceIndex: Int): Option[Reason] = Option(withoutService.get(serviceIndex))
}
