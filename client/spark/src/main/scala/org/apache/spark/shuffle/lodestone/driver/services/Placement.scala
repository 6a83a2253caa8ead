// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import org.apache.spark.shuffle.lodestone.wire.Load

/**
 * The needs of a shuffle: its bytes as far as its first map outputs show them, the number of
 * services for each partition, and whether its reduce tasks run where its services are.
 */
private[driver] final case class Demand(
    shuffleId: Int,
    numPartitions: Int,
    bytes: Long,
    replicas: Int = 1,
    areNear: Boolean = false)

/**
 * Chooses services for a shuffle: as many as it has use for, and first those on hosts with
 * executors. All chosen services get equal amounts. So services without room get nothing, unless
 * those with room are too few. Replicas are in different zones as far as zones allow it.
 */
private[driver] object Placement {

  /** A service with fewer partitions costs more connections than it saves time. */
  private val MinPartitionsPerService = 8

  /**
   * Beyond this part of its memory a service is short of memory. A load has the memory of the
   * store, or that for pushes: the one that is fuller.
   */
  private val StrainedMemory = 0.85

  /**
   * The space on a disk that a merge leaves to other programs: a part of a small disk. The same
   * part of a large disk would be more than most shuffles are.
   */
  private val SparedDiskPart = 0.1
  private val SparedDiskBytes = 4L << 30

  /** @param near hosts that have executors; empty where that says nothing */
  def choose(demand: Demand, live: Seq[Service], near: Set[String]): Seq[Service] = {
    val (strained, roomy) = live.partition(strainedBy(demand, live))
    val missing = if (roomy.size < demand.replicas) strained else Nil
    def inOrder(services: Seq[Service]): Seq[Service] = {
      val mixed = if (demand.replicas > 1) Zones.inTurn(services) else services
      rotated(mixed, demand).sortBy(service => !near.contains(service.address.host))
    }
    val all = inOrder(roomy) ++ inOrder(missing)
    if (demand.replicas > 1) Zones.choose(all, wanted(demand)) else all.take(wanted(demand))
  }

  /** True if no service has room for its part. */
  def allStrained(demand: Demand, live: Seq[Service]): Boolean =
    live.forall(strainedBy(demand, live))

  private def wanted(demand: Demand): Int =
    math.max(
      demand.replicas,
      (demand.numPartitions + MinPartitionsPerService - 1) / MinPartitionsPerService)

  /**
   * Neighbouring shuffles begin with different services, so that small shuffles spread as well.
   * With near reads a shuffle that needs all services keeps their order. So a service has the same
   * partitions of both shuffles of a join.
   */
  private def rotated(live: Seq[Service], demand: Demand): Seq[Service] =
    if (live.isEmpty || (demand.areNear && live.size <= wanted(demand))) live
    else {
      val first = Math.floorMod(demand.shuffleId, live.size)
      live.drop(first) ++ live.take(first)
    }

  private def strainedBy(demand: Demand, live: Seq[Service]): Service => Boolean = {
    val bytesPerService = demand.bytes / math.max(1, math.min(live.size, wanted(demand)))
    service => service.load.exists(isStrained(_, bytesPerService))
  }

  private def isStrained(load: Load, bytesPerService: Long): Boolean = {
    val spared = math.min(load.diskTotal * SparedDiskPart, SparedDiskBytes.toDouble)
    load.memoryUsed > load.memoryLimit * StrainedMemory || load.diskFree - bytesPerService < spared
  }
}
