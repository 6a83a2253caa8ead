// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.LodestoneConf

/**
 * Adds Lodestone's rule for the plans of Spark SQL to the extensions of the user, on the driver.
 * Spark reads the key when it makes a session, after it has made the shuffle manager.
 */
private[lodestone] object SqlExtensions {
  val Key = "spark.sql.extensions"

  /** A name, and no class: an application without SQL may lack the classes that it needs. */
  val OurName = "org.apache.spark.shuffle.lodestone.sql.LodestoneExtensions"

  def apply(conf: SparkConf): Unit =
    if (LodestoneConf(conf).nearReads && hasHosts(conf) &&
      ShuffleEligibility.remoteObstacle(conf).isEmpty) {
      val others = namesIn(conf).filterNot(_ == OurName)
      // Spark applies rules for finished plans in reverse order: the first extension sees a plan
      // last, and the rules of the others see no node of ours.
      conf.set(Key, (OurName +: others).mkString(","))
    }

  def isIn(conf: SparkConf): Boolean = namesIn(conf).contains(OurName)

  private def namesIn(conf: SparkConf): Seq[String] =
    conf.get(Key, "").split(",").toSeq.map(_.trim).filter(_.nonEmpty)

  /** True unless all tasks run in the JVM of the driver. */
  private def hasHosts(conf: SparkConf): Boolean =
    !conf.get("spark.master", "").matches("local(\\[.*\\])?")
}
