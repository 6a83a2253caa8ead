// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.{FileNotFoundException, InputStream}
import java.nio.file.{Files, Path}
import java.nio.file.LinkOption.NOFOLLOW_LINKS
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.attribute.PosixFilePermissions
import java.util.Locale

import org.apache.commons.codec.digest.DigestUtils

private[spark] final case class Program(file: Path, digest: String)

private[spark] object Program {
  def of(file: Path): Program = Program(file, BundledBinary.digestOf(file))
}

/** The daemon's program in our jar, and its extracted file. */
private[spark] object BundledBinary {
  private val Executable = PosixFilePermissions.fromString("rwx------")

  /** The resource of the program for a platform. Some platforms have none. */
  def resourceName(os: String, arch: String): String = {
    val machine = if (arch == "amd64") "x86_64" else arch
    s"lodestone/${os.toLowerCase(Locale.ROOT)}-$machine/lodestone"
  }

  /** Opens the resource, or fails if the jar has none for this platform. */
  def open(): InputStream = {
    val name = resourceName(System.getProperty("os.name"), System.getProperty("os.arch"))
    val stream = getClass.getClassLoader.getResourceAsStream(name)
    if (stream == null) {
      throw new FileNotFoundException(s"this jar bundles no daemon for this platform ($name)")
    }
    stream
  }

  /**
   * Extracts the program to `directory/<sha-256>/lodestone`, once per version, unless it is there
   * already. Several processes may do this at the same time.
   */
  def extract(directory: Path, program: () => InputStream): Program = {
    val digest = digestOf(program())
    val home = PrivateDirectory.open(directory, digest)
    val target = home.resolve("lodestone")
    if (!isWhole(target, digest)) {
      val fresh = Files.createTempFile(home, ".lodestone-", ".tmp")
      try {
        val in = program()
        try Files.copy(in, fresh, REPLACE_EXISTING)
        finally in.close()
        Files.setPosixFilePermissions(fresh, Executable)
        Files.move(fresh, target, ATOMIC_MOVE)
      } finally {
        Files.deleteIfExists(fresh)
      }
    }
    Program(target, digest)
  }

  private def isWhole(file: Path, digest: String): Boolean =
    Files.isRegularFile(file, NOFOLLOW_LINKS) && Files.isExecutable(file) &&
      digestOf(file) == digest

  def digestOf(file: Path): String = digestOf(Files.newInputStream(file))

  private def digestOf(program: InputStream): String =
    try DigestUtils.sha256Hex(program)
    finally program.close()
}
