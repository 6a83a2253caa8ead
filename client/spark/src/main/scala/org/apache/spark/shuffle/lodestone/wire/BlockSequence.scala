// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/**
 * Which one of its block, of one map attempt and partition, a segment of a remote shuffle is, and whether it
 * is the last one: readers see by it that they have all. A block of a merged shuffle has one segment.
 */
private[spark] object BlockSequence {

  /** What segments of merged shuffles have. */
  val Unnumbered: Int = 0

  def apply(number: Int): Int = number << 1

  def last(sequence: Int): Int = sequence | 1

  def numberOf(sequence: Int): Int = sequence >>> 1

  def isLast(sequence: Int): Boolean = (sequence & 1) == 1
}
