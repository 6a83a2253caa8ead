// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.{File, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import scala.annotation.tailrec

import org.apache.spark.SparkConf

/**
 * The local directories as the administrator configured them. A daemon outlives the executor that
 * started it, so it cannot use the directories that Spark makes below them for one executor or one
 * worker. A mounted directory is not Spark's, whatever its name: on Kubernetes Spark gives such a
 * name to a volume, and the directory above belongs to the image. (On YARN the directories belong
 * to the application, like the daemon, and nothing above them is ours to use.)
 */
private[spark] object LocalRoots {

  /** Names that Spark's `Utils.createDirectory` makes: a word and a UUID. */
  private val MadeBySpark = "(spark|executor|blockmgr)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

  /**
   * Returns true in a container of YARN, which removes the directories with the application. One of
   * the two variables alone is of somebody else.
   */
  def areOfContainer(environment: Map[String, String]): Boolean =
    Seq("CONTAINER_ID", "LOCAL_DIRS").forall(environment.contains)

  /** Reads the settings in Spark's own order (`Utils.getConfiguredLocalDirs`). */
  def apply(conf: SparkConf, environment: Map[String, String]): Seq[Path] =
    apply(conf, environment, MountPoints.ofThisProcess().contains(_))

  def apply(
      conf: SparkConf,
      environment: Map[String, String],
      isMounted: Path => Boolean): Seq[Path] = {
    val yarnDirs = environment.get("LOCAL_DIRS").filter(_ => areOfContainer(environment))
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

/**
 * The mount points that Linux lists for this process. Device numbers do not show them: a bind mount
 * may have the device of the directory below.
 */
private[spark] final class MountPoints private (paths: Set[String]) {
  def contains(directory: Path): Boolean = paths.contains(realPath(directory).toString)

  /** The list has no symbolic links. */
  private def realPath(directory: Path): Path =
    try {
      directory.toRealPath()
    } catch {
      // It does not exist yet, so nothing is mounted on it.
      case _: IOException => directory
    }
}

private[spark] object MountPoints {
  private val MountInfo = Paths.get("/proc/self/mountinfo")

  /** The field of the mount point, among fields with one blank between them (proc(5)). */
  private val Field = 4

  /** Blanks and similar characters are escaped in the file. */
  private val Escaped = "\\\\([0-7]{3})".r

  /**
   * Returns the mount points, or none if the list does not exist, as on systems that are not Linux.
   */
  def ofThisProcess(file: Path = MountInfo): MountPoints =
    try {
      of(new String(Files.readAllBytes(file), UTF_8))
    } catch {
      // Without the list no directory counts as a mount point.
      case _: IOException => of("")
    }

  private def of(mountInfo: String): MountPoints = {
    val fields = mountInfo.split('\n').toSeq.map(_.split(' ')).flatMap(_.lift(Field))
    new MountPoints(fields.map(unescaped).toSet)
  }

  private def unescaped(field: String): String =
    Escaped.replaceAllIn(
      field,
      code => {
        val char = Integer.parseInt(code.group(1), 8).toChar
        java.util.regex.Matcher.quoteReplacement(char.toString)
      })
}
