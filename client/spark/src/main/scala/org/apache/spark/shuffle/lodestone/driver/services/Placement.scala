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
 * those with room are too few, or all in one zone. Replicas are in different zones as far as zones
 * allow it.
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
    def inOrder(services: Seq[Service]): Seq[Service] =
      inTurn(services, demand).sortBy(service => !near.contains(service.address.host))
    val withRoom = taken(inOrder(roomy), demand)
    val needed =
      if (roomy.size < demand.replicas) strained
      else if (demand.replicas > 1 && !Zones.areApart(withRoom)(_.zone)) {
        // A zone whose only services are short of room is better than one with both replicas.
        Zones.elsewhere(strained, roomy)
      } else Nil
    if (needed.isEmpty) withRoom else taken(inOrder(roomy) ++ inOrder(needed), demand)
  }

  private def taken(services: Seq[Service], demand: Demand): Seq[Service] =
    if (demand.replicas > 1) Zones.choose(services, wanted(demand), leavesOut(demand))
    else services.take(wanted(demand))

  /**
   * True if services of uneven zones may stay without a part. With near reads they would be the
   * same ones for all shuffles, as the order is: their hosts would have no data and no tasks.
   */
  def leavesOut(demand: Demand): Boolean = !demand.areNear

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
  private def inTurn(live: Seq[Service], demand: Demand): Seq[Service] = {
    val keepsOrder = demand.areNear && live.size <= wanted(demand)
    val turn = if (keepsOrder) 0 else demand.shuffleId
    if (demand.replicas > 1) Zones.inTurn(live, turn) else Zones.rotated(live, turn)
  }

  /** All services that are used get equal amounts, and no service has both replicas. */
  private def strainedBy(demand: Demand, live: Seq[Service]): Service => Boolean = {
    val used = math.max(1, taken(live, demand).size)
    val bytesPerService = demand.bytes / used * math.min(demand.replicas, used)
    service => service.load.exists(isStrained(_, bytesPerService))
  }

  private def isStrained(load: Load, bytesPerService: Long): Boolean = {
    val spared = math.min(load.diskTotal * SparedDiskPart, SparedDiskBytes.toDouble)
    load.memoryUsed > load.memoryLimit * StrainedMemory || load.diskFree - bytesPerService < spared
  }
}
