// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.{BufferedReader, File, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.io.Source

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation

/** A real daemon (system property `lodestone.binary`) on loopback, for the length of a test. */
private[spark] final class DaemonProcess private (process: Process, ready: Map[String, String]) {

  val host: String = "127.0.0.1"
  val port: Int = ready("listen").split(':').last.toInt
  val incarnation: Long = java.lang.Long.parseUnsignedLong(ready("incarnation"), 16)

  /** The daemon and its incarnation. The incarnation changes when the daemon is restarted. */
  def location: ServiceLocation = ServiceLocation(host, port, incarnation)

  def hostPort: String = s"$host:$port"

  /** The value of a counter without labels, from the admin endpoint. */
  def counter(name: String): Long = {
    val metrics = Source.fromURL(s"http://${ready("admin")}/metrics", UTF_8.name)
    try metrics.getLines().map(_.split(' ')).find(_.head == name).map(_.last.toLong)
        .getOrElse(throw new NoSuchElementException(name))
    finally metrics.close()
  }

  /** The cluster says that an application has ended. There may be nothing of it here. */
  def end(appId: String): Unit = {
    val command = Seq(DaemonProcess.binary.getPath, "end", appId, "--service", hostPort)
    val ended = new ProcessBuilder(command: _*)
      .redirectErrorStream(true)
      .redirectOutput(ProcessBuilder.Redirect.DISCARD)
      .start()
    val code = ended.waitFor()
    require(code == 0 || code == DaemonProcess.NothingKnown, s"lodestone end $appId: code $code")
  }

  /** SIGSTOP: connections stay open, and new ones are accepted, but the daemon does not answer. */
  def freeze(): Unit = {
    signal("STOP")
    // Each thread stops at its own time.
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DaemonProcess.StopTimeoutS.toLong)
    while (!threadStates.forall(_ == 'T')) {
      require(System.nanoTime() < deadline, "the daemon did not stop")
      Thread.`yield`()
    }
  }

  private def threadStates: Seq[Char] =
    new File(s"/proc/${ready("pid")}/task").listFiles.toSeq.map { thread =>
      val stat = new String(Files.readAllBytes(new File(thread, "stat").toPath), UTF_8)
      // The name in the second field may hold blanks and brackets.
      stat.charAt(stat.lastIndexOf(')') + 2)
    }

  def thaw(): Unit = signal("CONT")

  private def signal(name: String): Unit = {
    val sent = new ProcessBuilder("kill", s"-$name", ready("pid")).start()
    require(sent.waitFor() == 0, s"the daemon got no SIG$name")
  }

  /** SIGKILL, as a crash would. */
  def kill(): Unit = {
    process.destroyForcibly()
    require(process.waitFor(DaemonProcess.StopTimeoutS, TimeUnit.SECONDS), "the daemon did not die")
  }

  /** SIGTERM, and SIGKILL after the time-out. */
  def stop(): Unit = {
    process.destroy()
    if (!process.waitFor(DaemonProcess.StopTimeoutS, TimeUnit.SECONDS)) {
      kill()
    }
  }
}

private[spark] object DaemonProcess {
  private val StartTimeoutS = 10
  private val StopTimeoutS = 15

  /** The exit code of `lodestone end` if the daemon held nothing of the application. */
  private val NothingKnown = 3

  private def binary: File = new File(sys.props("lodestone.binary"))

  /** Starts a daemon with its data below `directory`. Port 0 takes a free port. */
  def start(
      directory: File,
      port: Int = 0,
      memory: String = "128MiB",
      more: Seq[String] = Nil): DaemonProcess = {
    require(directory.isDirectory || directory.mkdirs(), s"cannot make $directory")
    require(binary.canExecute, s"$binary is missing: run `make build` first")
    val command = Seq(
      binary.getPath,
      "serve",
      "--listen",
      s"127.0.0.1:$port",
      "--admin",
      "127.0.0.1:0",
      "--dir",
      directory.getPath,
      "--memory",
      memory,
      // How full the disk of the test machine is decides nothing.
      "--reserve",
      "0b") ++ more
    val process = new ProcessBuilder(command: _*)
      .redirectError(new File(directory.getPath + ".log"))
      .start()
    new DaemonProcess(process, readyLine(process))
  }

  private def readyLine(process: Process): Map[String, String] = {
    val out = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8))
    val line = new CompletableFuture[String]()
    val reader = new Thread(() => line.complete(out.readLine()), "daemon-ready-line")
    reader.setDaemon(true)
    reader.start()
    val text = Option(line.get(StartTimeoutS, TimeUnit.SECONDS)).getOrElse("")
    require(text.startsWith("lodestone ready "), s"the daemon said '$text' instead of being ready")
    text.split(' ').drop(2).map(_.split("=", 2)).map(pair => pair(0) -> pair(1)).toMap
  }
}
