// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.shuffle.lodestone.{LodestoneConf, Mode, Reason}
import org.apache.spark.shuffle.lodestone.driver.services.{Demand, Placement, Service}
import org.apache.spark.shuffle.lodestone.push.DiskSpeed

/**
 * Whether a shuffle gains by being merged.
 *
 * To read a block by itself costs a request, a seek where it is not in memory, and the set-up of
 * its streams; to merge it costs a second copy of its bytes. So what counts is the size of a block,
 * where the two costs meet. A shuffle of few blocks is left alone: what it could gain is less than
 * a person notices, and Spark's own way needs no help from anybody.
 */
private[driver] final class MergeChoice(conf: LodestoneConf) {
  import MergeChoice._

  /**
   * The least that may be merged. Until a shuffle has shown what kind of disk it is, that is the less
   * of the two: an application of small shuffles would never learn. Asked from any thread.
   */
  @volatile private var leastBlocks = MinBlocksOnSlowDisk

  /** What the numbers of maps and partitions alone say, before the first task has run. */
  def obstacle(numMaps: Int, numPartitions: Int): Option[Reason] =
    if (conf.mode == Mode.Auto && numMaps.toLong * numPartitions < leastBlocks) {
      Some(Reason.FewBlocks)
    } else {
      None
    }

  /** What its first map outputs say, which stand for all. */
  def apply(numMaps: Int, sample: MapSample): Verdict = conf.mode match {
    case Mode.Merge | Mode.Remote => Merge(conf.pushMaxBlockSizeBytes)
    case Mode.Auto =>
      val Limits(least, largest) = limitsOf(sample)
      // A disk that was busy when it was first measured may turn out fast.
      if (sample.diskReadMicros >= 0) leastBlocks = least
      if (sample.blocks * numMaps < least * sample.maps) {
        Leave(Reason.FewBlocks)
      } else if (sample.bytes > largest * sample.blocks) {
        Leave(Reason.LargeBlocks)
      } else {
        Merge(math.min(conf.pushMaxBlockSizeBytes, largest * Tolerance))
      }
  }

  /** What decides, if it is not the user. */
  def limits(sample: MapSample): Option[Limits] =
    if (conf.mode == Mode.Auto) Some(limitsOf(sample)) else None

  private def limitsOf(sample: MapSample): Limits =
    if (sample.diskReadMicros >= DiskSpeed.SlowMicros) {
      Limits(MinBlocksOnSlowDisk, conf.pushMaxBlockSizeBytes)
    } else {
      Limits(MinBlocks, EvenBlockBytes)
    }

  /** Every service is short of something: they have better things to do than to save a little. */
  def isTooMuch(demand: Demand, services: Seq[Service]): Boolean =
    conf.mode == Mode.Auto && Placement.allStrained(demand, services)
}

private[driver] object MergeChoice {

  sealed trait Verdict

  /** Blocks up to this size are pushed. */
  final case class Merge(maxBlockBytes: Long) extends Verdict

  /** Merged are so many blocks and more, if they are not larger than that on average. */
  final case class Limits(leastBlocks: Long, largestMeanBytes: Long)

  /** To Spark, as long as nothing else is known. */
  final case class Leave(reason: Reason) extends Verdict

  /** At 12 to 25 us of a core for each, a quarter of a second is all that there is to gain. */
  val MinBlocks = 10000L

  /** At about 7 ms for each, more than a second. */
  val MinBlocksOnSlowDisk = 200L

  /** Where the costs meet when blocks are in memory or on a fast disk, as measured for decision 5. */
  val EvenBlockBytes: Long = 8L * 1024

  /** Around a mean below the limit, blocks vary; holes among merged ones cost requests. */
  private val Tolerance = 4
}
