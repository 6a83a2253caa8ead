// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

/**
 * Where something is mounted, as Linux tells this process. Devices do not tell: a bind mount may be
 * of the device that it is mounted on.
 */
private[spark] final class MountPoints private (paths: Set[String]) {
  def contains(directory: Path): Boolean = paths.contains(realPath(directory).toString)

  /** Mounts are told without symbolic links. */
  private def realPath(directory: Path): Path =
    try {
      directory.toRealPath()
    } catch {
      // It is not there yet, so nothing is mounted on it.
      case _: IOException => directory
    }
}

private[spark] object MountPoints {
  private val MountInfo = Paths.get("/proc/self/mountinfo")

  /** Where there is a mount's point, among fields with one blank between them (proc(5)). */
  private val Field = 4

  /** Blanks and the like, of which the file has none but its own. */
  private val Escaped = "\\\\([0-7]{3})".r

  /** Where nothing can be learned of mounts, as on systems that are not Linux, there are none. */
  def ofThisProcess(file: Path = MountInfo): MountPoints =
    try {
      of(new String(Files.readAllBytes(file), UTF_8))
    } catch {
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
