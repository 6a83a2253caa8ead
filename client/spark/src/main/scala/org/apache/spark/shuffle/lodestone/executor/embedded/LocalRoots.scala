// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.File
import java.nio.file.{Path, Paths}

import scala.annotation.tailrec

import org.apache.spark.SparkConf

/**
 * The local directories as the administrator configured them. A daemon outlives the executor that
 * started it, so the directories that Spark makes for one executor or one worker below the
 * configured ones are of no use to it. One that is mounted was made by somebody else, whatever its
 * name is: on Kubernetes Spark gives such a name to a volume, and what is above it is the image's.
 * (On YARN they belong to the application, and so does the daemon: nothing above them is ours to
 * use.)
 */
private[spark] object LocalRoots {

  /** What Spark's `Utils.createDirectory` makes: a word and a UUID. */
  private val MadeBySpark = "(spark|executor|blockmgr)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

  /** The order in which Spark itself looks (`Utils.getConfiguredLocalDirs`). */
  def apply(conf: SparkConf, environment: Map[String, String]): Seq[Path] =
    apply(conf, environment, MountPoints.ofThisProcess().contains(_))

  def apply(
      conf: SparkConf,
      environment: Map[String, String],
      isMounted: Path => Boolean): Seq[Path] = {
    val onYarn = environment.contains("CONTAINER_ID")
    val yarnDirs = environment.get("LOCAL_DIRS").filter(_ => onYarn)
    val listed = yarnDirs
      .map(_.split(","))
      .orElse(environment.get("SPARK_EXECUTOR_DIRS").map(_.split(File.pathSeparator)))
      .orElse(environment.get("SPARK_LOCAL_DIRS").map(_.split(",")))
      .getOrElse(conf.get("spark.local.dir", System.getProperty("java.io.tmpdir")).split(","))
    listed.toSeq
      .map(_.trim)
      .filter(_.nonEmpty)
      .map(dir => aboveSpark(Paths.get(dir).toAbsolutePath.normalize, isMounted))
      .distinct
  }

  @tailrec
  private def aboveSpark(directory: Path, isMounted: Path => Boolean): Path = {
    val parent = directory.getParent
    val looksMade = parent != null && directory.getFileName.toString.matches(MadeBySpark)
    if (looksMade && !isMounted(directory)) aboveSpark(parent, isMounted) else directory
  }
}
