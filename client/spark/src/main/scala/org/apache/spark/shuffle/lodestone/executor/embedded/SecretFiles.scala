// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Path}
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.attribute.FileTime
import java.util.concurrent.TimeUnit

/** What an application and its services know. It shows in no log. */
private[spark] final class AppSecret(val appId: String, private[embedded] val text: String) {
  override def toString: String = s"the secret of $appId"
}

/**
 * The secrets of applications for the daemon of this host: one file for each, which only this user
 * can read. The daemon reads a file for each connection that authenticates.
 */
private[spark] final class SecretFiles private (val directory: Path) {
  import SecretFiles._

  /** Others that start at the same time write the same. */
  def write(secret: AppSecret): Unit = {
    val target = directory.resolve(secret.appId)
    if (target.getParent != directory) {
      throw new IOException(s"${secret.appId} cannot name a file")
    }
    val fresh = Files.createTempFile(directory, Unfinished, ".tmp")
    try {
      Files.write(fresh, secret.text.getBytes(UTF_8))
      Files.move(fresh, target, ATOMIC_MOVE, REPLACE_EXISTING)
      ()
    } finally {
      Files.deleteIfExists(fresh)
      ()
    }
  }

  /**
   * Removes what applications left whose daemon has ended, when another daemon begins. Executors of
   * others may be about to use it: what is new stays.
   */
  def removeOld(): Unit = {
    val files = Files.newDirectoryStream(directory)
    try files.forEach(file => if (isOld(file)) { Files.deleteIfExists(file); () })
    finally files.close()
  }

  private def isOld(file: Path): Boolean =
    try {
      val limit = System.currentTimeMillis() - NewMs
      Files.getLastModifiedTime(file).compareTo(FileTime.fromMillis(limit)) < 0
    } catch {
      // Another executor has removed it.
      case _: NoSuchFileException => false
    }
}

private[spark] object SecretFiles {

  /** Between the write of a secret and the start of its daemon. */
  private val NewMs = TimeUnit.MINUTES.toMillis(5)

  /** Applications have no such ids. */
  private val Unfinished = ".secret-"

  def in(parent: Path, name: String): SecretFiles =
    new SecretFiles(PrivateDirectory.open(parent, name))
}
