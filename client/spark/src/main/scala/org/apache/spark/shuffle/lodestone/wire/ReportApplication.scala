// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** A report, which replaces the last one. `ended`: no newer one follows. The answer is [[Done]]. */
private[spark] final case class ReportApplication(app: Application, ended: Boolean, report: String)
    extends Message(81)
