// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import org.apache.commons.codec.digest.DigestUtils
import org.apache.spark.shuffle.lodestone.config.{HostPort, LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.plan.PemCertificate

/**
 * Finds or starts the one daemon of this host, user, program and set of directories. If several
 * executors start daemons at once, the daemons decide which one serves.
 *
 * @param host
 *   the address at which Spark offers this executor to others, so they can reach it
 * @param incarnationAt
 *   asks the service at an address for its incarnation, or returns the error
 * @param secret
 *   what clients of the daemon must know. Applications without one have another daemon.
 * @param certificate
 *   the certificate that the daemon has. Applications without TLS have another daemon.
 * @param endsWithContainer
 *   whether the daemon ends with the container of this executor
 */
private[spark] final class HostDaemon(
    conf: LodestoneConf,
    roots: Seq[Path],
    user: String,
    host: String,
    incarnationAt: HostPort => Either[String, Long],
    secret: Option[AppSecret] = None,
    certificate: Option[PemCertificate] = None,
    endsWithContainer: Boolean = false) extends Logged {
  import HostDaemon._

  def findOrStart(): HostPort = {
    val homes = usableHomes()
    val program = conf.embeddedBinary match {
      case Some(path) => Program.of(executable(Paths.get(path)))
      case None => BundledBinary.extract(homes.head, () => BundledBinary.open())
    }
    val name = s"${program.digest.take(KeyChars)}-${key(homes)}" +
      secret.fold("")(_ => "-auth") + certificate.fold("")(it => s"-tls-${it.digest}")
    val secrets = secret.map(one => (SecretFiles.in(homes.head, s"$name.secrets"), one))
    val command = DaemonCommand(
      binary = executable(program.file),
      host = host,
      dirs = homes,
      memoryBytes = conf.embeddedMemoryBytes,
      idleExitMs = conf.embeddedIdleTimeoutMs,
      announce = homes.head.resolve(s"$name.announce"),
      log = homes.head.resolve(s"$name.log"),
      secrets = secrets.map { case (files, _) => files.directory },
      certificate = certificate,
      endsWithContainer = endsWithContainer)
    // Before the daemon is asked: it asks for the secret.
    secrets.foreach { case (files, one) => files.write(one) }
    running(command.announce).getOrElse {
      start(command, Attempts, () => secrets.foreach { case (files, _) => files.removeOld() })
    }
  }

  private def executable(file: Path): Path =
    if (Files.isExecutable(file)) {
      file
    } else {
      throw new IOException(s"$file cannot be executed: it is missing or on a noexec mount")
    }

  private def usableHomes(): Seq[Path] = {
    val homes = roots.map(home)
    val usable = homes.collect { case Right(directory) => directory }
    if (usable.isEmpty) {
      val why = homes.collect { case Left(failure) => failure.toString }
      throw new IOException(why.mkString("no usable local directory: ", "; ", ""))
    }
    usable
  }

  private def home(root: Path): Either[IOException, Path] =
    try {
      Right(PrivateDirectory.open(root, s"lodestone-$user"))
    } catch {
      case failure: IOException =>
        log.warn(s"The local directory $root is not used: $failure")
        Left(failure)
    }

  /**
   * The key of executors that share a daemon: they offer the same address and have the same
   * directories.
   */
  private def key(homes: Seq[Path]): String =
    DigestUtils.sha256Hex((host +: homes.map(_.toString)).mkString("\n")).take(KeyChars)

  private def running(announce: Path): Option[HostPort] =
    if (Files.isRegularFile(announce) && Files.size(announce) <= ReadyLine.MaxChars) {
      val text = new String(Files.readAllBytes(announce), UTF_8).trim
      ReadyLine.parse(text).map(verified).collect { case Right(address) => address }
    } else {
      None
    }

  /** `atFresh` runs if no daemon was there: one that did not answer may still serve others. */
  private def start(command: DaemonCommand, attempts: Int, atFresh: () => Unit): HostPort = {
    val line = EmbeddedDaemon.start(command)
    verified(line) match {
      case Right(address) =>
        if (!line.existing) atFresh()
        val how = if (line.existing) "found" else "started"
        log.info(s"$how the shuffle service $address (pid ${line.pid}), version ${line.version}")
        address
      // The daemon that started earlier may have been about to end.
      case Left(_) if attempts > 1 => start(command, attempts - 1, atFresh)
      case Left(cause) =>
        throw new IOException(s"the daemon with pid ${line.pid} cannot be used: $cause")
    }
  }

  /**
   * Checks that the daemon of the line is at its address. The line may be old, and the port may
   * belong to another program.
   */
  private def verified(line: ReadyLine): Either[String, HostPort] = {
    val address = HostPort(host, line.listen.port)
    incarnationAt(address) match {
      case Right(incarnation) if incarnation == line.incarnation => Right(address)
      case Right(_) => Left(s"$address is another service than the one announced")
      case Left(cause) => Left(cause)
    }
  }
}

private[spark] object HostDaemon {
  private val Attempts = 2
  private val KeyChars = 16

  def safe(user: String): String = {
    val kept = user.filter(c => c.isLetterOrDigit || c == '-' || c == '_').take(64)
    if (kept.isEmpty) "user" else kept
  }
}
