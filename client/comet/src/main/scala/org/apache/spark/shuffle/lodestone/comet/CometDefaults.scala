// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Mode}

/**
 * Settings of Comet for mode remote, on the driver, unless the user has set them. In this mode
 * Spark believes that no executor has outputs that are missed when it ends. So shuffles that only
 * Comet writes, and leaves on executors, are Spark's exchanges instead, which services take.
 */
private[comet] object CometDefaults {

  def apply(conf: SparkConf): Unit =
    if (LodestoneConf(conf).mode == Mode.Remote) {
      // Comet does not encrypt.
      if (conf.get(config.IO_ENCRYPTION_ENABLED)) {
        setIfMissing(conf, "enabled", "false")
      }
      setIfMissing(conf, "mode", "native")
    }

  /** A user may have set the key of another release, which a release may take as well. */
  private def setIfMissing(conf: SparkConf, name: String, value: String): Unit = {
    val own = s"${CometRelease.ShuffleKeys}.$name"
    if (!AllKeys.map(keys => s"$keys.$name").exists(conf.contains)) conf.set(own, value)
    ()
  }

  private val AllKeys = Seq("spark.comet.exec.shuffle", "spark.comet.shuffle")
}
