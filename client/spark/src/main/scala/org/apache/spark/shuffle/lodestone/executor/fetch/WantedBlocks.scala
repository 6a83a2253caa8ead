// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.wire.LaidSegment
import org.apache.spark.storage.ShuffleBlockId

/** The blocks of one partition that a task reads: by map index, the attempt that Spark accepted. */
private[fetch] final class WantedBlocks {
  import WantedBlocks._

  private val attempts = mutable.LongMap.empty[Long]

  /** By map index, the number of the list that names the block, if it is not the first one. */
  private var lists = FirstList

  /** Map indexes of segments of other attempts. */
  private lazy val others = mutable.BitSet.empty

  def add(mapIndex: Int, mapId: Long, list: Int = 0): Unit = {
    attempts.update(mapIndex.toLong, mapId)
    if (list != 0) {
      if (lists eq FirstList) lists = mutable.LongMap.empty
      lists.update(mapIndex.toLong, list)
    }
  }

  def size: Int = attempts.size

  def has(mapIndex: Int): Boolean = attempts.contains(mapIndex.toLong)

  def isFrom(segment: LaidSegment): Boolean = {
    val attempt = attempts.getOrElse(segment.mapIndex.toLong, NoAttempt)
    attempt != NoAttempt && attempt == segment.mapId
  }

  /** Takes a whole block: another segment that says to be the same is not read. */
  def take(segment: LaidSegment): Boolean = {
    val isWanted = isFrom(segment)
    if (isWanted) attempts -= segment.mapIndex.toLong
    else if (has(segment.mapIndex)) others += segment.mapIndex
    isWanted
  }

  /** How many blocks were not taken, although there is one of another attempt of their map. */
  def rejected: Int = others.count(has)

  def listOf(segment: LaidSegment): Int = lists.getOrElse(segment.mapIndex.toLong, 0)

  /** Map index and map id of each block. */
  def blocks: Iterator[(Int, Long)] = attempts.iterator.map { case (map, id) => (map.toInt, id) }
}

private[fetch] object WantedBlocks {

  /** Spark counts attempts from 0. */
  private val NoAttempt = Long.MinValue

  /** Stays empty. Few partitions need a map of their own, and a task may read many of them. */
  private val FirstList = mutable.LongMap.empty[Int]

  /** By partition, those of all lists that are blocks of a shuffle. */
  def apply(
      lists: Seq[ReadSources.BlockList],
      numberOf: Int => Int = identity): collection.Map[Int, WantedBlocks] = {
    val found = mutable.HashMap.empty[Int, WantedBlocks]
    // Most tasks read one partition: it is looked up once.
    var last = -1
    var ofLast = new WantedBlocks
    for ((list, i) <- lists.iterator.zipWithIndex) {
      val number = numberOf(i)
      list.foreach {
        case (ShuffleBlockId(_, mapId, reduceId), _, mapIndex) =>
          if (reduceId != last) {
            last = reduceId
            ofLast = found.getOrElseUpdate(reduceId, new WantedBlocks)
          }
          ofLast.add(mapIndex, mapId, number)
        case _ =>
      }
    }
    found
  }
}
