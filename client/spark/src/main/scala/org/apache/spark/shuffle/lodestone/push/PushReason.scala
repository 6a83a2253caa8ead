// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, Status}

/** Why a block stays unmerged, from what the service said. */
private[push] object PushReason {

  def of(failure: Throwable): Reason = failure match {
    case refused: RefusedException => of(refused.status)
    case _ => Reason.PushConnection
  }

  def of(status: Status): Reason = status match {
    case Status.TooLate => Reason.PushTooLate
    case Status.OtherAttempt => Reason.PushOtherAttempt
    case Status.StaleMerge | Status.StaleAttempt => Reason.PushStale
    case Status.StaleIncarnation => Reason.PushRestarted
    case Status.UnknownApplication | Status.UnknownShuffle | Status.UnknownPartition =>
      Reason.PushUnknown
    case Status.ChecksumMismatch => Reason.PushCorrupt
    case Status.DiskFull => Reason.PushDiskFull
    case Status.DiskFailed => Reason.PushDiskFailed
    case Status.Overloaded | Status.NotFinalized => Reason.PushOverloaded
    case Status.Draining => Reason.PushDraining
    case Status.Internal => Reason.PushServiceError
    case Status.Malformed | Status.VersionMismatch | Status.TooLarge => Reason.PushRefused
    case Status.Ok | Status.Duplicate => throw new AssertionError(s"$status is no failure")
  }

  /** Nothing more of this map can be merged, whichever service is asked. */
  def endsMap(status: Status): Boolean = status match {
    case Status.TooLate | Status.StaleMerge | Status.StaleAttempt => true
    case _ => false
  }
}
