// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.slf4j.LoggerFactory

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.LodestoneConf

/** What mode remote wants of Spark's own settings, where the user did not set them. */
private[lodestone] object RemoteDefaults {
  val IoPlugin = "spark.shuffle.sort.io.plugin.class"

  private val log = LoggerFactory.getLogger("org.apache.spark.shuffle.lodestone.driver")

  private val settings = Seq(
    IoPlugin -> classOf[RemoteShuffleDataIO].getName,
    // Executors need not stay because of what they wrote.
    "spark.dynamicAllocation.shuffleTracking.enabled" -> "false",
    // A join that became a broadcast would read whole map outputs, to read where they were written:
    // there is no such place, and each task would have a small request for each partition instead.
    "spark.sql.adaptive.localShuffleReader.enabled" -> "false")

  /**
   * On the driver, before Spark reads them. Where the configuration alone says that every shuffle is
   * left to Spark, outputs are on executors after all, and Spark must go on looking after them.
   */
  def apply(conf: SparkConf): Unit = ShuffleEligibility.remoteObstacle(conf) match {
    case None => settings.foreach { case (key, value) => conf.setIfMissing(key, value) }
    case Some(reason) =>
      log.warn(
        s"${LodestoneConf.ModeKey.key} is remote, and yet no shuffle of this application " +
          s"will be: ${reason.sentence} ($reason). Executors keep their map outputs, " +
          "as they do without Lodestone.")
  }
}
