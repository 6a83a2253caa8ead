// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.remote

import org.apache.spark.SparkConf

/** What mode remote wants of Spark's own settings, where the user did not set them. */
private[lodestone] object RemoteDefaults {
  val IoPlugin = "spark.shuffle.sort.io.plugin.class"

  private val settings = Seq(
    IoPlugin -> classOf[RemoteShuffleDataIO].getName,
    // Executors need not stay because of what they wrote.
    "spark.dynamicAllocation.shuffleTracking.enabled" -> "false",
    // Outputs are on no executor's host.
    "spark.shuffle.reduceLocality.enabled" -> "false")

  /** On the driver, before Spark reads them. */
  def apply(conf: SparkConf): Unit = settings.foreach { case (key, value) =>
    conf.setIfMissing(key, value)
  }
}
