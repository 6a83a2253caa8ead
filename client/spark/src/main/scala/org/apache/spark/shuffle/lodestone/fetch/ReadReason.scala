// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, Status}

/** Why merged data is not read, from what the service said. */
private[fetch] object ReadReason {

  def of(failure: Throwable, otherwise: Reason): Reason = failure match {
    case refused: RefusedException => of(refused.status, otherwise)
    case _ => otherwise
  }

  private def of(status: Status, otherwise: Reason): Reason = status match {
    case Status.StaleIncarnation => Reason.FetchRestarted
    case Status.NotFinalized => Reason.NotFinalized
    case _ => otherwise
  }
}
