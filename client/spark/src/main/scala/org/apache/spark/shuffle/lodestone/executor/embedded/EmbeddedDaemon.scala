// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.{File, InputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.nio.file.StandardCopyOption.REPLACE_EXISTING
import java.util.concurrent.{CompletableFuture, ConcurrentLinkedQueue}
import java.util.concurrent.{ExecutionException, TimeoutException, TimeUnit}

import scala.annotation.tailrec

import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, HostPort}
import org.apache.spark.shuffle.lodestone.plan.PemCertificate

private[spark] final case class DaemonCommand(
    binary: Path,
    host: String,
    dirs: Seq[Path],
    memoryBytes: Option[Long],
    idleExitMs: Long,
    announce: Path,
    log: Path,
    secrets: Option[Path] = None,
    certificate: Option[PemCertificate] = None,
    endsWithContainer: Boolean = false) {

  def arguments: Seq[String] = Seq(
    binary.toString,
    "serve",
    "--listen",
    s"$host:0",
    "--dir",
    dirs.mkString(","),
    "--memory",
    memoryBytes.fold("auto")(bytes => s"${bytes / 1024}KiB"),
    "--idle-exit",
    s"${TimeUnit.MILLISECONDS.toSeconds(idleExitMs)}s",
    "--announce",
    announce.toString) ++
    secrets.toSeq.flatMap(path => Seq("--secrets", path.toString)) ++
    certificate.toSeq.flatMap(it =>
      Seq("--tls-cert", it.cert.toString, "--tls-key", it.key.toString)) ++
    Seq("--stay").filter(_ => endsWithContainer)
}

/**
 * Starts the daemon as a process of its own. It outlives this process, because `--announce` makes
 * it leave our session, and ends when no application needs it. In a container of YARN it ends with
 * the executor, which has the other end of its standard input. (It also stays in the group of
 * processes to which YARN sends signals, but YARN sends none if it was quick to remove the files
 * of a container that ended by itself.)
 */
private[spark] object EmbeddedDaemon {

  /**
   * A daemon starts in much less than a second. After this time the plugin does not wait for it.
   */
  private val StartTimeoutMs = 10000L

  /** The beginnings of the variables that the daemon, or the system under it, reads. */
  private val Inherited = Seq("LODESTONE_", "RUST_", "PATH", "TZ", "TMPDIR", "LD_", "MALLOC_")

  /** At a start a log above this size is renamed, and replaces the last renamed one. */
  private val MaxLogBytes = 1024L * 1024

  /** The part of the log that the error has when a daemon does not start. */
  private val LogTailBytes = 600

  /** Daemons whose input is open as long as they are referred to. A few: others have ended. */
  private val ofContainer = new ConcurrentLinkedQueue[Process]()

  /**
   * Returns the ready line of the daemon that serves now: the new one, or one that started earlier.
   */
  def start(command: DaemonCommand, timeoutMs: Long = StartTimeoutMs): ReadyLine = {
    rotate(command.log)
    val logStart = if (Files.exists(command.log)) Files.size(command.log) else 0L
    val builder = new ProcessBuilder(command.arguments: _*)
      .redirectError(ProcessBuilder.Redirect.appendTo(command.log.toFile))
    // Spark hands secrets to executors in their environment, and the daemon outlives them.
    builder.environment().keySet().removeIf(name => !Inherited.exists(name.startsWith))
    if (!command.endsWithContainer) {
      builder.redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")))
    }
    val process = builder.start()
    if (command.endsWithContainer) {
      ofContainer.removeIf(one => !one.isAlive)
      ofContainer.add(process)
    }
    val line = firstLine(process.getInputStream)
    var isReady = false
    try {
      val text = line.get(timeoutMs, TimeUnit.MILLISECONDS)
      val ready = ReadyLine.parse(text).getOrElse {
        throw new IOException(
          s"${command.binary} printed '$text' in place of its ready line: " +
            tail(command.log, logStart))
      }
      isReady = true
      ready
    } catch {
      case _: TimeoutException =>
        throw new IOException(
          s"${command.binary} was not ready in $timeoutMs ms: ${tail(command.log, logStart)}")
      case failed: ExecutionException =>
        throw new IOException(
          s"${command.binary} ended without serving: ${tail(command.log, logStart)}",
          failed.getCause)
    } finally {
      // Whatever it is, the next try starts another one.
      if (!isReady) process.destroyForcibly()
      ()
    }
  }

  private def rotate(log: Path): Unit =
    if (Files.exists(log) && Files.size(log) > MaxLogBytes) {
      Files.move(log, log.resolveSibling(s"${log.getFileName}.1"), REPLACE_EXISTING)
    }

  /** Reads the line on a thread of its own, because a pipe has no time-out. */
  private def firstLine(stdout: InputStream): CompletableFuture[String] = {
    val line = new CompletableFuture[String]()
    DaemonThreads.start("daemon-start") {
      try {
        line.complete(readLine(stdout))
        stdout.close()
      } catch {
        case failed: IOException => line.completeExceptionally(failed)
      }
    }
    line
  }

  private def readLine(stdout: InputStream): String = {
    @tailrec
    def read(sofar: Vector[Byte]): Vector[Byte] = stdout.read() match {
      case '\n' => sofar
      case -1 if sofar.isEmpty => throw new IOException("its output ended")
      case -1 => sofar
      case _ if sofar.size >= ReadyLine.MaxChars => sofar
      case byte => read(sofar :+ byte.toByte)
    }
    new String(read(Vector.empty).toArray, UTF_8)
  }

  private def tail(log: Path, start: Long): String = {
    val channel = Files.newByteChannel(log)
    try {
      val from = math.max(start, channel.size() - LogTailBytes)
      val buffer = java.nio.ByteBuffer.allocate(LogTailBytes)
      channel.position(from)
      while (buffer.hasRemaining && channel.read(buffer) >= 0) {}
      val text = new String(buffer.array(), 0, buffer.position(), UTF_8).trim
      if (text.isEmpty) s"its log has nothing ($log)" else s"$text ($log)"
    } finally {
      channel.close()
    }
  }
}

/** The line that a daemon prints when it serves, or that names the one which serves already. */
private[spark] final case class ReadyLine(
    listen: HostPort,
    incarnation: Long,
    pid: Long,
    version: String,
    existing: Boolean)

private[spark] object ReadyLine {
  private val Start = "lodestone ready "
  val MaxChars = 1024

  def parse(line: String): Option[ReadyLine] =
    if (!line.startsWith(Start) || line.length > MaxChars) {
      None
    } else {
      val fields = line.stripPrefix(Start).trim.split("\\s+").toSeq.flatMap { field =>
        field.split("=", 2) match {
          case Array(name, value) => Some(name -> value)
          case _ => None
        }
      }.toMap
      for {
        listen <- fields.get("listen").flatMap(HostPort.parse)
        hex <- fields.get("incarnation").filter(_.matches("[0-9a-fA-F]{1,16}"))
        incarnation = java.lang.Long.parseUnsignedLong(hex, 16) if incarnation != 0
        pid <- fields.get("pid").filter(_.matches("\\d{1,18}")).map(_.toLong)
        version <- fields.get("version")
      } yield ReadyLine(
        listen,
        incarnation,
        pid,
        version,
        fields.get("existing").contains("true"))
    }
}
