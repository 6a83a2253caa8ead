// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

/**
 * Which service of a list has which partitions. Neighbours are together in runs, and the services take
 * turns run by run: reduce tasks that start at the same time read neighbouring partitions, and so from
 * many services. All services have the same number of runs, and runs differ by one partition at most.
 */
private[lodestone] final class Stripes(services: Int, numPartitions: Int) {
  import Stripes._

  private val runsOfService = numberOfRuns(services, numPartitions)
  private val runs = runsOfService.toLong * services

  /** The index of the service. */
  def groupOf(partition: Int): Int = (runOf(partition) % services).toInt

  /** The rank at which each run begins when partitions are ordered by service first. */
  private lazy val starts: Array[Int] = Array.tabulate(runs.toInt)(runAt).scanLeft(0) {
    (start, run) =>
      start + firstOf(run + 1) - firstOf(run)
  }

  /** The place of a partition if all are ordered by service, and then by their numbers. */
  def rankOf(partition: Int): Int =
    if (services == 1) partition
    else if (numPartitions <= MostInTable) ranks(partition)
    else computedRank(partition)

  /** For the question that is asked for each record. */
  private lazy val ranks: Array[Int] = Array.tabulate(numPartitions)(computedRank)

  private def computedRank(partition: Int): Int = {
    val run = runOf(partition)
    val place = (run % services) * runsOfService + run / services
    starts(place.toInt) + partition - firstOf(run)
  }

  /** The partition of a rank. */
  def partitionAt(rank: Int): Int = if (services == 1) rank else found(rank)

  private def found(rank: Int): Int = {
    val found = java.util.Arrays.binarySearch(starts, 0, runs.toInt, rank)
    // A run without partitions begins where the next one does.
    var place = if (found >= 0) found else -found - 2
    while (starts(place + 1) <= rank) place += 1
    firstOf(runAt(place)) + rank - starts(place)
  }

  /** The run at a place in the order by services. */
  private def runAt(place: Int): Long =
    (place % runsOfService).toLong * services + place / runsOfService

  private def runOf(partition: Int): Long = partition * runs / numPartitions

  /** The first partition of a run: the smallest one whose run is not less. */
  private def firstOf(run: Long): Int = ((run * numPartitions + runs - 1) / runs).toInt
}

private[lodestone] object Stripes {

  /** A reduce task of a few coalesced neighbours reads from one service or two. */
  private val LeastRunPartitions = 8

  /** Ranks of more partitions are computed each time: 256 KB. */
  private val MostInTable = 1 << 16

  /** More runs would spread the tasks of a large shuffle no better. */
  private val MostRunsOfService = 64

  private def numberOfRuns(services: Int, numPartitions: Int): Int = {
    val most = numPartitions / (services.toLong * LeastRunPartitions)
    if (services == 1) 1 else math.max(1, math.min(most, MostRunsOfService.toLong)).toInt
  }
}
