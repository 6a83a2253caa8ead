// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.lodestone.transport.FailureClass
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, Status}

/** The reason under which a failed read is counted. [[FailureClass]] decides what a task does. */
private[fetch] object ReadReason {

  def of(failure: Throwable, otherwise: Reason): Reason = failure match {
    case refused: RefusedException if refused.status == Status.StaleIncarnation =>
      Reason.FetchRestarted
    case _ =>
      FailureClass.of(failure) match {
        case FailureClass.Silence | FailureClass.Straggler => Reason.FetchTimedOut
        case FailureClass.ServiceDisk => Reason.FetchDiskFailed
        case FailureClass.ServiceBusy => Reason.FetchOverloaded
        case FailureClass.MissingData => Reason.FetchDataGone
        case FailureClass.Corrupt => Reason.ChunkCorrupt
        case _ => otherwise
      }
  }
}
