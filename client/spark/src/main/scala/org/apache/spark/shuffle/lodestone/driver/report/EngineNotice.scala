// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.apache.spark.SparkConf

/**
 * A line of the log for users who add Lodestone to an application with Comet. Comet looks at the
 * name of the shuffle manager. With another one than its own it shuffles rows (0.12), or does not
 * run at all (from 1.0 on).
 */
private[driver] object EngineNotice {
  private val Manager = "spark.shuffle.manager"
  private val Usual = "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager"
  private val Comets = "org.apache.spark.shuffle.lodestone.comet.LodestoneCometShuffleManager"

  /** By these classes, in these settings, an application has Comet. */
  private val CometClasses = Seq(
    "spark.plugins" -> "org.apache.spark.CometPlugin",
    "spark.sql.extensions" -> "org.apache.comet.CometSparkSessionExtensions")

  /** Comet has no shuffles then, by the user's own choice. */
  private val CometSwitches = Seq("spark.comet.enabled", "spark.comet.exec.shuffle.enabled")

  /** Returns the line of the log, if the application has Comet and the usual shuffle manager. */
  def apply(conf: SparkConf): Option[String] = {
    val hasComet = CometClasses.exists { case (key, name) =>
      conf.get(key, "").split(",").map(_.trim).contains(name)
    }
    // Comet itself refuses a text that is no truth value.
    def isWanted = CometSwitches.forall(!conf.get(_, "true").trim.equalsIgnoreCase("false"))
    if (hasComet && isWanted && conf.get(Manager, "") == Usual) {
      Some(
        s"Comet is there, and $Manager is $Usual. So Comet 0.12 leaves all shuffles to Spark, " +
          "and from 1.0 on it does not run at all. For Comet 0.12 on Spark 3.5 set " +
          s"$Manager=$Comets, which is in the jar lodestone-comet-0.12-spark-3.5_2.12.")
    } else {
      None
    }
  }
}
