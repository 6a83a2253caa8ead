// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import scala.collection.mutable

/**
 * Collects which segments of one partition were found, at one service or several, and knows which
 * blocks are whole: those with all segments from the first one to the one that is marked as last.
 * Several services may have the same segment, with the same content, but no service has it twice.
 */
private[spark] final class SeenSegments {
  import SeenSegments._

  private val seen = mutable.LongMap.empty[Seen]

  /** By map index, the blocks that have more than one segment. */
  private val several = mutable.LongMap.empty[SequenceCheck]

  /** The map indexes of blocks whose segments contradict each other. */
  private val broken = mutable.BitSet.empty
  private var service = 0

  /** The segments that follow are at another service. */
  def nextService(): Unit = service += 1

  /** Adds a segment. Returns false if it was found before. */
  def add(segment: LaidSegment): Boolean = {
    val name = nameOf(segment.mapIndex, BlockSequence.numberOf(segment.sequence))
    val before = seen.getOrNull(name)
    if (before == null) {
      seen.put(name, new Seen(segment, service))
      if (segment.sequence != BlockSequence.Only) add(segment.mapIndex, segment.sequence)
    } else if (before.service == service || before.segment != segment) {
      broken += segment.mapIndex
    }
    before == null
  }

  def isWhole(mapIndex: Int): Boolean = !broken(mapIndex) && {
    val first = seen.getOrNull(nameOf(mapIndex, 0))
    val check = several.getOrNull(mapIndex.toLong)
    if (check == null) first != null else first != null && check.isWhole
  }

  private def add(mapIndex: Int, sequence: Int): Unit = {
    val check = several.getOrElseUpdate(mapIndex.toLong, new SequenceCheck)
    val number = BlockSequence.numberOf(sequence)
    check.count += 1
    check.highest = math.max(check.highest, number)
    if (BlockSequence.isLast(sequence)) {
      if (check.last != Unknown) broken += mapIndex
      check.last = number
    }
  }
}

private object SeenSegments {

  private val Unknown = -1

  private final class Seen(val segment: LaidSegment, val service: Int)

  /** The segments of one block, each counted once. */
  private final class SequenceCheck {
    var count = 0
    var highest: Int = Unknown
    var last: Int = Unknown

    def isWhole: Boolean = last != Unknown && highest == last && count == last + 1
  }

  private def nameOf(mapIndex: Int, number: Int): Long = (mapIndex.toLong << 32) | number
}
