// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

/**
 * Assigns the partitions of a shuffle to the services of a list. A stripe is a group of consecutive
 * partitions. The services take turns stripe by stripe: reduce tasks that start together read
 * neighbouring partitions, and so read from many services. All services have the same number of
 * stripes, and the sizes of stripes differ by one partition at most.
 *
 * @param areLong
 *   true if each service has one stripe. Then nearly all coalesced tasks read from one service. It
 *   is right if they run on its host: tasks of all hosts start together, so all services are read
 */
private[lodestone] final class Stripes(
    val services: Int,
    numPartitions: Int,
    areLong: Boolean = false) {
  import Stripes._

  private val stripesPerService = if (areLong) 1 else stripesOf(services, numPartitions)
  private val stripes = stripesPerService.toLong * services
  def groupOf(partition: Int): Int = (stripeOf(partition) % services).toInt

  /** The rank at which each stripe begins. */
  private lazy val starts: Array[Int] = Array.tabulate(stripes.toInt)(stripeAt).scanLeft(0) {
    (start, stripe) =>
      start + firstOf(stripe + 1) - firstOf(stripe)
  }

  /** Returns the rank of a partition: its position in the order by service and then by number. */
  def rankOf(partition: Int): Int =
    if (services == 1) partition
    else if (numPartitions <= MaxInTable) ranks(partition)
    else computedRank(partition)

  /** A table, because map tasks need the rank of each record. */
  private lazy val ranks: Array[Int] = Array.tabulate(numPartitions)(computedRank)

  private def computedRank(partition: Int): Int = {
    val stripe = stripeOf(partition)
    val position = (stripe % services) * stripesPerService + stripe / services
    starts(position.toInt) + partition - firstOf(stripe)
  }

  def partitionAt(rank: Int): Int = if (services == 1) rank else found(rank)

  /** Returns the rank at which the partitions of a service begin. */
  def firstRankOf(service: Int): Int =
    if (services == 1) 0 else starts(service * stripesPerService)

  private def found(rank: Int): Int = {
    val found = java.util.Arrays.binarySearch(starts, 0, stripes.toInt, rank)
    // A stripe without partitions begins where the next one does.
    var position = if (found >= 0) found else -found - 2
    while (starts(position + 1) <= rank) position += 1
    firstOf(stripeAt(position)) + rank - starts(position)
  }

  /** Returns the stripe at a position in the order by service. */
  private def stripeAt(position: Int): Long =
    (position % stripesPerService).toLong * services + position / stripesPerService

  private def stripeOf(partition: Int): Long = partition * stripes / numPartitions

  /** Returns the first partition of a stripe: the smallest one whose stripe is not less. */
  private def firstOf(stripe: Long): Int = ((stripe * numPartitions + stripes - 1) / stripes).toInt
}

private[lodestone] object Stripes {

  /** With this size a reduce task of a few coalesced neighbours reads from one service or two. */
  private val MinStripePartitions = 8

  /** Beyond this size of the table, 256 KB, each rank is computed. */
  private val MaxInTable = 1 << 16

  /** With this size a wave of 128 reduce tasks reads from 4 services. */
  private val MaxStripePartitions = 32

  /** More stripes do not spread tasks better, and a map task reads and sends each stripe apart. */
  private val EnoughStripes = 64

  private def stripesOf(services: Int, numPartitions: Int): Int =
    if (services == 1) 1
    else {
      def stripesWith(size: Int) = numPartitions / (services.toLong * size)
      val wanted = math.min(stripesWith(MinStripePartitions), EnoughStripes.toLong)
      math.max(1L, math.max(wanted, stripesWith(MaxStripePartitions))).toInt
    }
}
