// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/**
 * The number of a segment within its block, and a mark of the last one. By these a reader sees
 * whether it has the whole block. If executors keep the map outputs, a block is one segment.
 */
private[spark] object BlockSequence {

  /** The value of a segment that is a whole block, as most are. */
  val Only: Int = last(0)

  def apply(number: Int): Int = number << 1

  def last(sequence: Int): Int = sequence | 1

  def numberOf(sequence: Int): Int = sequence >>> 1

  def isLast(sequence: Int): Boolean = (sequence & 1) == 1
}
