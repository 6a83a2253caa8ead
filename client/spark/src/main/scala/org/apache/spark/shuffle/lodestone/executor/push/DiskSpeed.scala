// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.util.control.NonFatal

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.plan.MapSample

/**
 * The time of a small read from a local disk that has nothing else to do: the least of some
 * measurements. A disk that writes looks like one that turns, as long as it is busy; one that turns
 * always looks so. So a disk that seems slow is measured again.
 */
private[lodestone] final class DiskSpeed(measure: () => Long) extends Logged {
  import DiskSpeed._

  private var least = DiskProbe.Unknown
  private var left = Measurements

  /** Blocks while it measures; never fails. */
  def readMicros(): Long = synchronized {
    if (left > 0 && (least == DiskProbe.Unknown || least >= MapSample.SlowMicros)) {
      val now = measured()
      left = if (now == DiskProbe.Unknown) 0 else left - 1
      least = if (least == DiskProbe.Unknown) now else math.min(least, now)
    }
    least
  }

  private def measured(): Long =
    try measure()
    catch {
      // For example, the executor is about to end, or this JVM lacks a class of direct reads. An
      // uncaught error would end the executor.
      case failure @ (NonFatal(_) | _: LinkageError) =>
        log.warn("The speed of the local disk is not known", failure)
        DiskProbe.Unknown
    }
}

private[lodestone] object DiskSpeed {

  /** One takes half a second on a disk that turns. */
  val Measurements = 4
}
