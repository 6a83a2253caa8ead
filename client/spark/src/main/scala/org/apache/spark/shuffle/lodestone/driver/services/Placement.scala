// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import org.apache.spark.shuffle.lodestone.wire.Load

/**
 * Which of the live services hold a shuffle: as many as it has use for, those with room before those
 * without, those beside executors before those elsewhere.
 */
private[driver] object Placement {

  /** A service that gets fewer partitions than this costs more in connections than it helps. */
  private val MinPartitionsPerService = 8

  /** Past these a service has little room left, for now. */
  private val StrainedMemory = 0.85
  private val StrainedDiskFree = 0.1

  /** @param near hosts that have executors; empty where that says nothing */
  def choose(
      shuffleId: Int,
      numPartitions: Int,
      live: Seq[Service],
      near: Set[String]): Seq[Service] = {
    val wanted = (numPartitions + MinPartitionsPerService - 1) / MinPartitionsPerService
    rotated(live, shuffleId)
      .sortBy(service => (isStrained(service.load), !near.contains(service.address.host)))
      .take(math.max(1, wanted))
  }

  /** Neighbouring shuffles begin with different services, so that small ones spread as well. */
  private def rotated(live: Seq[Service], by: Int): Seq[Service] = {
    val first = if (live.isEmpty) 0 else Math.floorMod(by, live.size)
    live.drop(first) ++ live.take(first)
  }

  def isStrained(load: Option[Load]): Boolean = load.exists { known =>
    known.memoryUsed > known.memoryLimit * StrainedMemory ||
    known.diskFree < known.diskTotal * StrainedDiskFree
  }
}
