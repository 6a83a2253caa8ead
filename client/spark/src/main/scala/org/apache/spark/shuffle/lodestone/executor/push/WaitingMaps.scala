// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.atomic.AtomicLong

/**
 * What map outputs that wait for their push hold in memory: lengths and record counts of all partitions,
 * which is little for each of them and much for hundreds of maps of 100,000 partitions.
 */
private[push] final class WaitingMaps {
  import WaitingMaps._

  private val bytes = new AtomicLong

  /** False: there is no room for it. A map that would wait alone may be as large as it likes. */
  def enter(map: MapOutput): Boolean = {
    val size = sizeOf(map)
    val all = bytes.addAndGet(size)
    val enters = all <= MaxBytes || all == size
    if (!enters) bytes.addAndGet(-size)
    enters
  }

  def leave(map: MapOutput): Unit = {
    bytes.addAndGet(-sizeOf(map))
    ()
  }
}

private[push] object WaitingMaps {

  /** Room for all that may wait where there are 1,000 partitions. */
  val MaxBytes: Long = 8L << 20

  private val BytesPerPartition = 2L * java.lang.Long.BYTES

  private def sizeOf(map: MapOutput): Long = map.lengths.length * BytesPerPartition
}
