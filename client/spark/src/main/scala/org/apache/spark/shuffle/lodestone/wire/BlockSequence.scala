// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/**
 * The number of a segment within its block, and a mark of the last one. By these a reader of a
 * remote shuffle sees whether it has the whole block. A block of a merged shuffle has one segment.
 */
private[spark] object BlockSequence {

  /** The value for the segments of merged shuffles. */
  val Unnumbered: Int = 0

  def apply(number: Int): Int = number << 1

  def last(sequence: Int): Int = sequence | 1

  def numberOf(sequence: Int): Int = sequence >>> 1

  def isLast(sequence: Int): Boolean = (sequence & 1) == 1
}
