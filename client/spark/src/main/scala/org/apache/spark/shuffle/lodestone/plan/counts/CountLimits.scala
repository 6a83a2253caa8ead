// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan.counts

/** The limits of the numbers of records that the driver keeps and sends. */
private[lodestone] object CountLimits {

  /**
   * The memory of the driver for all shuffles. Beyond it the driver forgets the shuffle that was
   * idle longest.
   */
  val MostBytes: Long = 64L << 20

  /** The memory for one shuffle, so that it does not drive out all others. */
  val MostBytesOfShuffle: Long = MostBytes / 4

  /**
   * The limit for one map task. Its message has a megabyte at most, and an answer with two of its
   * attempts has two.
   */
  val MostPartitions: Int = 128 * 1024

  /**
   * The limit of numbers in one answer about several maps: a megabyte if each takes eight bytes,
   * and mostly a quarter.
   */
  val MostInAnswer: Int = MostPartitions

  /** Up to this number an executor asks once for the numbers of the whole shuffle. */
  private val MostInWhole = 32L * 1024

  /**
   * True if map tasks of such a shuffle send their numbers, and reduce tasks ask for them. The
   * numbers of a larger shuffle have no room, even if each is as short as it may be.
   *
   * @param numberBytes
   *   the least bytes of a number
   */
  def isKept(numMaps: Int, numPartitions: Int, numberBytes: Int): Boolean =
    numPartitions <= MostPartitions &&
      numMaps.toLong * numPartitions <= MostBytesOfShuffle / numberBytes

  /** True if an executor asks for the whole shuffle, false if each task asks for its part. */
  def isAskedWhole(numMaps: Int, numPartitions: Int): Boolean =
    numMaps.toLong * numPartitions <= MostInWhole
}
