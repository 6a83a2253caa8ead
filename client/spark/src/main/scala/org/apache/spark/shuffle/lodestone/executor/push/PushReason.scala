// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.lodestone.transport.FailureClass
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, Status}

/** The reason for which a block is not merged. [[FailureClass]] decides what to do about it. */
private[push] object PushReason {

  def of(failure: Throwable): Reason = failure match {
    case refused: RefusedException => of(refused.status)
    case other =>
      FailureClass.of(other) match {
        case FailureClass.OwnDisk => Reason.PushReadFailed
        case FailureClass.Foreign | FailureClass.Fault => Reason.PushServiceError
        case _ => Reason.PushConnection
      }
  }

  def of(status: Status): Reason = status match {
    case Status.TooLate => Reason.PushTooLate
    case Status.StaleGeneration | Status.StaleAttempt => Reason.PushStale
    case Status.StaleIncarnation => Reason.PushRestarted
    case Status.UnknownApplication | Status.UnknownShuffle | Status.UnknownPartition |
        Status.NotFinalized =>
      Reason.PushUnknown
    case Status.ChecksumMismatch => Reason.PushCorrupt
    case Status.DiskFull => Reason.PushDiskFull
    case Status.DiskFailed => Reason.PushDiskFailed
    case Status.Overloaded => Reason.PushOverloaded
    case Status.Quota => Reason.PushQuota
    case Status.Draining => Reason.PushDraining
    case Status.Internal | Status.OtherContent => Reason.PushServiceError
    case Status.LedgerMismatch => Reason.LedgerMismatch
    case Status.Aborted => Reason.PushAborted
    case Status.TooLarge => Reason.PushTooLarge
    case Status.Malformed | Status.VersionMismatch => Reason.PushRefused
    case Status.Ok | Status.Duplicate => throw new AssertionError(s"$status is no failure")
  }
}
