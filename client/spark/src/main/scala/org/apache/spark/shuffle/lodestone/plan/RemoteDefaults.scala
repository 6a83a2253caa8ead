// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.api.ShuffleDriverComponents
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.sort.io.{LocalDiskShuffleDataIO, LocalDiskShuffleDriverComponents}

/** The values of Spark's settings in mode remote, unless the user sets them. */
private[lodestone] object RemoteDefaults extends Logged {
  val IoPlugin = "spark.shuffle.sort.io.plugin.class"

  private val settings = Seq(
    IoPlugin -> classOf[RemoteShuffleDataIO].getName,
    // Executors need not stay because of their map outputs.
    "spark.dynamicAllocation.shuffleTracking.enabled" -> "false",
    // A join that became a broadcast would read whole map outputs where they were written. In mode
    // remote no such host exists, and each task would send a small request for each partition.
    "spark.sql.adaptive.localShuffleReader.enabled" -> "false")

  /**
   * Sets the values on the driver before Spark reads them. If the configuration alone leaves every
   * shuffle to Spark, executors keep the outputs, and Spark must protect these as usual.
   */
  def apply(conf: SparkConf): Unit = ShuffleEligibility.remoteObstacle(conf) match {
    case None => settings.foreach { case (key, value) => conf.setIfMissing(key, value) }
    case Some(reason) =>
      log.warn(
        s"${LodestoneConf.ModeKey.key} is remote, but no shuffle of this application can be " +
          s"remote: ${reason.sentence} ($reason). Executors keep their map outputs, as they do " +
          s"without Lodestone. ${reason.remedy}")
  }
}

/**
 * Lets Spark's scheduler know that map outputs survive their executors. If an executor is lost, it
 * does not run finished maps again, and it keeps no executor because of its outputs. A few outputs
 * may be on executors' disks. If a reader does not find one, Spark runs its map again.
 */
private[spark] final class RemoteShuffleDataIO(conf: SparkConf)
    extends LocalDiskShuffleDataIO(conf) {
  override def driver(): ShuffleDriverComponents = new LocalDiskShuffleDriverComponents {
    override def supportsReliableStorage(): Boolean = true
  }
}
