// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Mode}

/**
 * A setting of Gluten for mode remote, on the driver, unless the user has set it. Gluten does not
 * encrypt. With encryption its shuffles would stay on executors, which Spark believes not to be
 * missed when they end. Spark's exchanges are encrypted, and services take them.
 */
private[gluten] object GlutenDefaults {
  def apply(conf: SparkConf): Unit =
    if (LodestoneConf(conf).mode == Mode.Remote && conf.get(config.IO_ENCRYPTION_ENABLED)) {
      conf.setIfMissing("spark.gluten.sql.columnar.shuffle", "false")
      ()
    }
}
