// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.apache.spark.SparkConf

/**
 * A line of the log for users who add Lodestone to an application with an engine. Engines look at
 * the shuffle manager, and with one that they do not know they have no shuffles of their own.
 */
private[driver] object EngineNotice {
  private val Manager = "spark.shuffle.manager"
  private val Usual = "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager"

  /**
   * An engine.
   *
   * @param classes
   *   by these classes, in these settings, an application has the engine
   * @param switches
   *   if one of them is false, the engine has no shuffles by the user's own choice
   */
  private final case class Known(
      name: String,
      classes: Seq[(String, String)],
      switches: Seq[String],
      consequence: String,
      remedy: String)

  private val Engines = Seq(
    Known(
      "Comet",
      Seq(
        "spark.plugins" -> "org.apache.spark.CometPlugin",
        "spark.sql.extensions" -> "org.apache.comet.CometSparkSessionExtensions"),
      Seq(
        "spark.comet.enabled",
        "spark.comet.exec.shuffle.enabled",
        "spark.comet.shuffle.enabled"),
      "Comet 0.12 leaves all shuffles to Spark, and from 1.0 on it does not run at all",
      s"Set $Manager=org.apache.spark.shuffle.lodestone.comet.LodestoneCometShuffleManager, " +
        "which is in the jar lodestone-comet-0.12-spark-3.5_2.12 for Comet 0.12 on Spark 3.5, " +
        "and in lodestone-comet-1.2-spark-4.1_2.13 for Comet 1.2 on Spark 4.1."),
    Known(
      "Gluten",
      Seq("spark.plugins" -> "org.apache.gluten.GlutenPlugin"),
      Seq("spark.gluten.enabled", "spark.gluten.sql.columnar.shuffle"),
      "Gluten makes rows of its columns for each shuffle",
      s"For Gluten 1.6 on Spark 3.5 set $Manager=org.apache.spark.shuffle.lodestone.gluten." +
        "LodestoneGlutenShuffleManager, which is in the jar " +
        "lodestone-gluten-1.6-spark-3.5_2.12. It takes Gluten's shuffles in mode remote. " +
        "For other releases of Gluten set " +
        s"$Manager=org.apache.spark.shuffle.sort.ColumnarShuffleManager, without Lodestone."),
    Known(
      "Auron",
      Seq("spark.sql.extensions" -> "org.apache.spark.sql.auron.AuronSparkSessionExtension"),
      Seq("spark.auron.enabled", "spark.auron.enable", "spark.auron.enable.shuffleExchange"),
      "Auron 7 and 8 fail each query",
      s"For Auron 7 and 8 on Spark 3.5 set $Manager=org.apache.spark.shuffle.lodestone.auron." +
        "LodestoneAuronShuffleManager, which is in the jar lodestone-auron-spark-3.5_2.12."))

  /** Returns the lines of the log, if the application has an engine and the usual manager. */
  def apply(conf: SparkConf): Seq[String] =
    if (conf.get(Manager, "") == Usual) Engines.filter(isUsed(conf, _)).map(line) else Nil

  private def isUsed(conf: SparkConf, engine: Known): Boolean = {
    val isThere = engine.classes.exists { case (key, name) =>
      conf.get(key, "").split(",").map(_.trim).contains(name)
    }
    // The engine itself refuses a text that is no truth value.
    isThere && engine.switches.forall(!conf.get(_, "true").trim.equalsIgnoreCase("false"))
  }

  private def line(engine: Known): String =
    s"${engine.name} is there, and $Manager is $Usual. So ${engine.consequence}. ${engine.remedy}"
}
