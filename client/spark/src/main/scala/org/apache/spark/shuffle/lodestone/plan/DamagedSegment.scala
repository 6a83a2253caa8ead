// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.shuffle.lodestone.wire.LaidSegment

/** The name of a segment alone: the rest of the layout may be damaged too. */
private[spark] final case class DamagedSegment(
    reduceId: Int,
    mapIndex: Int,
    mapId: Long,
    sequence: Int) {

  def names(laid: LaidSegment): Boolean =
    laid.mapIndex == mapIndex && laid.mapId == mapId && laid.sequence == sequence
}

private[spark] object DamagedSegment {
  def of(reduceId: Int, laid: LaidSegment): DamagedSegment =
    DamagedSegment(reduceId, laid.mapIndex, laid.mapId, laid.sequence)
}
