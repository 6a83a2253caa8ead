// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.driver.report.DriverReport
import org.apache.spark.shuffle.lodestone.driver.services.Removals
import org.apache.spark.shuffle.lodestone.plan.{NoPlan, Reason, ServiceLocation, ShuffleGeneration}

/**
 * The shuffles of Spark that use services. All calls are events of the loop.
 *
 * @param ended
 *   is called when a generation of a shuffle ends
 */
private[driver] final class Shuffles(
    ended: ShuffleGeneration => Unit,
    removals: Removals,
    report: DriverReport) {
  private val known = mutable.HashMap.empty[Int, Shuffle]

  def add(shuffle: Shuffle): Unit = known.put(shuffle.shuffleId, shuffle)

  def find(shuffleId: Int): Option[Shuffle] = known.get(shuffleId)
  def current(id: ShuffleGeneration): Option[Shuffle] = find(id.shuffleId).filter(_.id == id)

  def all: Iterable[Shuffle] = known.values

  /**
   * Returns the services to which map tasks push now. None if the shuffle uses no service or is
   * removed.
   */
  def inUse(shuffleId: Int): Option[(ShuffleGeneration, Set[ServiceLocation])] =
    find(shuffleId).map(shuffle => (shuffle.id, shuffle.services.filter(shuffle.uses)))

  /** True if the service at this address may have the only outputs of a shuffle. */
  def needAddress(address: HostPort): Boolean = known.values.exists { shuffle =>
    def isThere(service: ServiceLocation) = service.address == address && shuffle.uses(service)
    !shuffle.keepsOriginals && shuffle.services.exists(isThere)
  }

  /** Begins a generation, because Spark runs all maps again. Services remove the old one. */
  def beginGeneration(shuffle: Shuffle): Unit = {
    end(shuffle, Reason.PushStale)
    shuffle.beginGeneration()
    report.began(shuffle.id)
  }

  def removed(shuffleId: Int): Unit = known.remove(shuffleId).foreach { shuffle =>
    end(shuffle, Reason.UnknownShuffle)
    shuffle.remove()
  }

  private def end(shuffle: Shuffle, reason: Reason): Unit = {
    ended(shuffle.id)
    shuffle.pushes.settle(0, NoPlan(reason))
    shuffle.registeredAt.foreach(removals(_, shuffle.id))
  }
}
