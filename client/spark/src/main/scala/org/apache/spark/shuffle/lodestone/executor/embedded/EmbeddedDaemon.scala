// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.{File, InputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.nio.file.StandardCopyOption.REPLACE_EXISTING
import java.util.concurrent.{CompletableFuture, ExecutionException, TimeoutException, TimeUnit}

import scala.annotation.tailrec

import org.apache.spark.shuffle.lodestone.config.DaemonThreads

/** How a daemon is started on an executor's host. */
private[spark] final case class DaemonCommand(
    binary: Path,
    host: String,
    dirs: Seq[Path],
    memoryBytes: Option[Long],
    idleExitMs: Long,
    announce: Path,
    log: Path) {

  def arguments: Seq[String] = Seq(
    binary.toString,
    "serve",
    "--listen",
    s"$host:0",
    "--dir",
    dirs.mkString(","),
    "--memory",
    memoryBytes.fold("auto")(bytes => s"${bytes / DaemonCommand.BytesPerKib}KiB"),
    "--idle-exit",
    s"${TimeUnit.MILLISECONDS.toSeconds(idleExitMs)}s",
    "--announce",
    announce.toString)
}

private[spark] object DaemonCommand {
  private val BytesPerKib = 1024L
}

/**
 * Starts the daemon as a process of its own, which outlives this one (it leaves our session when it
 * is told to announce itself) and goes away when nobody needs it.
 */
private[spark] object EmbeddedDaemon {

  /** A daemon is up in well under a second; one that is not by now is not worth waiting for. */
  private val StartTimeoutMs = 10000L

  /** The log of earlier daemons is kept once over when it passes this at a start. */
  private val MaxLogBytes = 1024L * 1024

  /** How much of the log goes into the error when a daemon does not start. */
  private val LogTailBytes = 600

  /** The ready line of the daemon that serves now: the new one, or one that was quicker. */
  def start(command: DaemonCommand, timeoutMs: Long = StartTimeoutMs): ReadyLine = {
    rotate(command.log)
    val logStart = if (Files.exists(command.log)) Files.size(command.log) else 0L
    val process = new ProcessBuilder(command.arguments: _*)
      .redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")))
      .redirectError(ProcessBuilder.Redirect.appendTo(command.log.toFile))
      .start()
    val line = firstLine(process.getInputStream)
    try {
      val text = line.get(timeoutMs, TimeUnit.MILLISECONDS)
      ReadyLine.parse(text).getOrElse {
        throw new IOException(
          s"${command.binary} printed '$text' in place of its ready line: " +
            tail(command.log, logStart))
      }
    } catch {
      case _: TimeoutException =>
        process.destroyForcibly()
        throw new IOException(
          s"${command.binary} was not ready in $timeoutMs ms: ${tail(command.log, logStart)}")
      case failed: ExecutionException =>
        process.destroyForcibly()
        throw new IOException(
          s"${command.binary} ended without serving: ${tail(command.log, logStart)}",
          failed.getCause)
    }
  }

  private def rotate(log: Path): Unit =
    if (Files.exists(log) && Files.size(log) > MaxLogBytes) {
      Files.move(log, log.resolveSibling(s"${log.getFileName}.1"), REPLACE_EXISTING)
    }

  /** Read on a thread of its own: a pipe cannot be read with a time-out. */
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
      if (text.isEmpty) s"it said nothing ($log)" else s"$text ($log)"
    } finally {
      channel.close()
    }
  }
}
