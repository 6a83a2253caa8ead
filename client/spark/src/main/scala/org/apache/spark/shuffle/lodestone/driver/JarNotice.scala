// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.{SparkConf, SparkEnv, SPARK_VERSION}
import org.apache.spark.util.Utils

/** The warning that executors will end at their start, because they lack the jar. */
private[driver] object JarNotice {
  private val ClassPath = "spark.executor.extraClassPath"

  def apply(conf: SparkConf): Option[String] =
    of(conf, SPARK_VERSION, getClass.getClassLoader eq classOf[SparkEnv].getClassLoader)

  /** The jar may have another name, or be in a folder of jars. */
  private def mayHave(classPath: String): Boolean =
    classPath.split(":").exists(entry => entry.contains("lodestone") || entry.endsWith("*"))

  /**
   * Returns the warning. Spark 4 creates the shuffle manager of an executor after it has fetched
   * the jars of the application, Spark 3.5 before that.
   *
   * @param isOnClassPath
   *   whether the driver has the jar where Spark is, and not from `--jars` or `--packages`
   */
  def of(conf: SparkConf, sparkVersion: String, isOnClassPath: Boolean): Option[String] = {
    // A user may give the driver the jar with --jars and --driver-class-path, and forget executors.
    val isFetched = !isOnClassPath || conf.get("spark.jars", "").contains("lodestone-spark-")
    val mayLack = isFetched && !mayHave(conf.get(ClassPath, "")) && !Utils.isLocalMaster(conf)
    if (sparkVersion.startsWith("3.") && mayLack) {
      Some(
        s"Executors of Spark $sparkVersion need the Lodestone jar before they get those of " +
          "--jars and --packages. If they end with a ClassNotFoundException, copy the jar to " +
          s"each host, and set $ClassPath")
    } else {
      None
    }
  }
}
