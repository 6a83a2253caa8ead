// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan.counts

/** Of how many blocks the driver keeps the numbers of records, and how it gives them away. */
private[lodestone] object CountLimits {

  /** In the driver's memory, of all shuffles: beyond it the numbers of the one that was idle longest go. */
  val MostBytes: Long = 64L << 20

  /** Of one shuffle, so that it does not drive out all others. */
  val MostBytesOfShuffle: Long = MostBytes / 4

  /** More have no room at one byte each: map tasks do not tell. */
  private val MostBlocks = MostBytesOfShuffle

  /** Of a map task: its message is a megabyte at most then, and an answer, with two attempts of it, is two. */
  val MostPartitions: Int = 128 * 1024

  /** Numbers in one answer, of more than one map: a megabyte if each takes eight bytes, and mostly a quarter. */
  val MostInAnswer: Int = MostPartitions

  /** Up to this many, an executor has the numbers of the whole shuffle for all its tasks. */
  private val MostInWhole = 32L * 1024

  /** Whether map tasks of such a shuffle tell their numbers, and reduce tasks ask for them. */
  def isKept(numMaps: Int, numPartitions: Int): Boolean =
    numPartitions <= MostPartitions && numMaps.toLong * numPartitions <= MostBlocks

  /** Else each task asks for what it reads. */
  def isAskedWhole(numMaps: Int, numPartitions: Int): Boolean =
    numMaps.toLong * numPartitions <= MostInWhole
}
