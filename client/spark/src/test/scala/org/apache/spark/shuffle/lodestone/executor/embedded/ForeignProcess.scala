// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.util.concurrent.TimeUnit

/** A process that is not our child. (`ProcessHandle` needs a newer Java than Spark 3.5 does.) */
private[embedded] object ForeignProcess {
  private val WaitS = 30L

  def awaitEnd(pid: Long): Unit = run("tail", s"--pid=$pid", "-f", "/dev/null")

  /** The signals of a terminal or a process group reach the processes of one session. */
  def session(pid: Long): Long = {
    val stat = new String(Files.readAllBytes(Paths.get(s"/proc/$pid/stat")), UTF_8)
    // The name in the second field may hold blanks; what follows its closing bracket is regular.
    stat.substring(stat.lastIndexOf(')') + 2).split(' ')(3).toLong
  }

  def kill(pid: Long): Unit = {
    run("kill", "-KILL", pid.toString)
    awaitEnd(pid)
  }

  private def run(command: String*): Unit = {
    val process = new ProcessBuilder(command: _*).start()
    val ended = process.waitFor(WaitS, TimeUnit.SECONDS)
    process.destroyForcibly()
    assert(ended, s"${command.mkString(" ")}: not over after $WaitS s")
  }
}
