// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import org.apache.spark.shuffle.lodestone.driver.MapSample

/** Sums over the map outputs of one shuffle that this executor has seen. Not thread-safe. */
private[push] final class MapSamples {
  private var maps = 0
  private var blocks = 0L
  private var bytes = 0L

  def add(lengths: Array[Long]): Unit = {
    maps += 1
    lengths.foreach { length =>
      if (length > 0) {
        blocks += 1
        bytes += length
      }
    }
  }

  def count: Int = maps

  def sample(diskReadMicros: Long): MapSample = MapSample(maps, blocks, bytes, diskReadMicros)
}
