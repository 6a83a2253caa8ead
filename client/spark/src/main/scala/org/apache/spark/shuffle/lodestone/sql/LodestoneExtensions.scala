// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.sql

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle.lodestone.LodestoneShuffleManager
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/** The entry in `spark.sql.extensions`: [[plan.SqlExtensions]] adds it. */
private[spark] final class LodestoneExtensions extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar(_ =>
      new ColumnarRule {
        override def postColumnarTransitions: Rule[SparkPlan] =
          new NearReads((shuffleId, reads) =>
            SparkEnv.get.shuffleManager match {
              case lodestone: LodestoneShuffleManager => lodestone.hostsFor(shuffleId, reads)
              case _ => None
            })
      })
}
