// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Mode}

/**
 * Settings of Auron for mode remote, on the driver, unless the user has set them. In this mode
 * Spark believes that no executor has outputs that are missed when it ends. Auron's native code
 * does not encrypt, and services do not take its frames where Spark encrypts. So its shuffles are
 * Spark's exchanges then, which services take.
 */
private[auron] object AuronDefaults {

  def apply(conf: SparkConf): Unit =
    if (LodestoneConf(conf).mode == Mode.Remote && conf.get(config.IO_ENCRYPTION_ENABLED)) {
      conf.setIfMissing("spark.auron.enable.shuffleExchange", "false")
      ()
    }
}
