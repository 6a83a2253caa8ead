// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, MapSample, Reason}

/** What the report says of one shuffle. */
private[driver] final class ShuffleRecord(
    val shuffleId: Int,
    val numMaps: Int,
    val numPartitions: Int,
    val format: BlockFormat = BlockFormat.SparkStream) {
  var generation: Int = 0
  var state: ShuffleRecord.State = ShuffleRecord.Registered
  var services: Int = 0

  /** The time that merging adds between the map stage and the reduce stage. */
  var readersWaitedMs: Long = 0
  val counts = new ReportCounts

  /** The sample of the last decision whether to merge. */
  var sample: Option[MapSample] = None

  /** The limits that the sample was compared with. None in mode merge. */
  var limits: Option[MergeLimits] = None
  var generationBlocks: Long = 0

  /** Sums over the reported attempts, if rows are encoded: as they push, and as Spark sees it. */
  var encodedLength: Long = 0
  var encodedSize: Long = 0

  /** The reason of the last decision that no service is used, in this generation. */
  var decision: Option[Reason] = None

  /** The number of the last change: [[DriverReport.changes]]. */
  var changedAt: Long = 0

  /** Times since the epoch, in ms; 0 if it has not happened. Removal is no change. */
  var registeredMs: Long = 0
  var decidedMs: Long = 0
  var changedMs: Long = 0
  var removedMs: Long = 0

  def began(newGeneration: Int): Unit = {
    generation = newGeneration
    sample = None
    limits = None
    services = 0
    readersWaitedMs = 0
    decidedMs = 0
    decision = None
    generationBlocks = 0
  }
}

private[driver] object ShuffleRecord {
  sealed abstract class State(val name: String)
  case object Registered extends State("registered")
  case object Merged extends State("merged")
  case object Plain extends State("plain")
  case object Remote extends State("remote")
}
