// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Mode}
import org.apache.spark.shuffle.lodestone.driver.report.MergeLimits
import org.apache.spark.shuffle.lodestone.driver.services.{Demand, Placement, Service}
import org.apache.spark.shuffle.lodestone.plan.{MapSample, Reason}

/**
 * Decides whether a shuffle gains by merging.
 *
 * To read a block by itself costs a request, a seek if it is not in memory, and the set-up of its
 * streams. To merge it costs a second copy of its bytes. The two costs are equal at a certain block
 * size, so the size of blocks decides. A shuffle of few blocks is not merged: its gain would be too
 * small to notice, and without merging it depends on no service.
 */
private[driver] final class MergeChoice(conf: LodestoneConf) {
  import MergeChoice._

  /**
   * The smallest number of blocks that is merged. Until a shuffle has shown how fast the disks are,
   * it is the smaller of the two numbers: an application of small shuffles would otherwise never
   * measure them. Any thread reads it.
   */
  @volatile private var leastBlocks = MinBlocksOnSlowDisk

  /** Decides by the numbers of maps and partitions alone, before the first task has run. */
  def obstacle(numMaps: Int, numPartitions: Int): Option[Reason] =
    Some(Reason.FewBlocks).filter { _ =>
      conf.mode == Mode.Auto && numMaps.toLong * numPartitions < leastBlocks
    }

  /** Decides by the first map outputs, which stand for all. */
  def apply(numMaps: Int, sample: MapSample): Decision = conf.mode match {
    case Mode.Merge | Mode.Remote => Merge(conf.pushMaxBlockSizeBytes)
    case Mode.Auto =>
      val MergeLimits(least, largest) = limitsOf(sample)
      // A disk that was busy at the first measurement may prove fast later.
      if (sample.diskReadMicros >= 0) leastBlocks = least
      if (sample.blocks * numMaps < least * sample.maps) {
        Leave(Reason.FewBlocks)
      } else if (sample.bytes > largest * sample.blocks) {
        Leave(Reason.LargeBlocks)
      } else {
        Merge(math.min(conf.pushMaxBlockSizeBytes, largest * Tolerance))
      }
  }

  /** Returns the limits that decide, unless the user has decided by the mode. */
  def limits(sample: MapSample): Option[MergeLimits] =
    if (conf.mode == Mode.Auto) Some(limitsOf(sample)) else None

  private def limitsOf(sample: MapSample): MergeLimits =
    if (sample.diskReadMicros >= MapSample.SlowMicros) {
      MergeLimits(MinBlocksOnSlowDisk, conf.pushMaxBlockSizeBytes)
    } else {
      MergeLimits(MinBlocks, EvenBlockBytes)
    }

  /** True if every service is short of memory or disk, which remote shuffles need more. */
  def isTooMuch(demand: Demand, services: Seq[Service]): Boolean =
    conf.mode == Mode.Auto && Placement.allStrained(demand, services)
}

private[driver] object MergeChoice {

  sealed trait Decision

  /** Blocks up to this size are pushed. */
  final case class Merge(maxBlockBytes: Long) extends Decision

  /** The shuffle is left to Spark, until a later sample says otherwise. */
  final case class Leave(reason: Reason) extends Decision

  /** Fewer blocks gain at most a quarter of a second, at 12 to 25 us of a core for each. */
  val MinBlocks = 10000L

  /** So many blocks gain more than a second, at about 7 ms for each. */
  val MinBlocksOnSlowDisk = 200L

  /** The size of equal costs for blocks in memory or on a fast disk, as decision 5 measured it. */
  val EvenBlockBytes: Long = 8L * 1024

  /** Blocks vary around their mean, and each block that is not merged costs a request. */
  private val Tolerance = 4
}
