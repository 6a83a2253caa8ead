// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.IOException
import java.nio.file.{FileAlreadyExistsException, Files, Path}
import java.nio.file.LinkOption.NOFOLLOW_LINKS
import java.nio.file.attribute.PosixFilePermissions

/**
 * A directory that no other user could prepare or can read. It has a program that we execute, and
 * it may be in a directory like /tmp, where every user can create names.
 */
private[spark] object PrivateDirectory {
  private val OwnerOnly = PosixFilePermissions.fromString("rwx------")

  def open(parent: Path, name: String): Path = {
    Files.createDirectories(parent)
    val directory = parent.resolve(name)
    try {
      Files.createDirectory(directory, PosixFilePermissions.asFileAttribute(OwnerOnly))
    } catch {
      case _: FileAlreadyExistsException => check(directory)
    }
    // Again, because the process' mask may have removed bits, or an older directory may have more.
    Files.setPosixFilePermissions(directory, OwnerOnly)
    directory
  }

  private def check(directory: Path): Unit = {
    if (!Files.isDirectory(directory, NOFOLLOW_LINKS)) {
      throw new IOException(s"$directory is not a directory; remove it or choose another local dir")
    }
    // The file system knows our user. Names and user.name may differ in containers.
    val probe = Files.createTempFile(directory, ".owner-", ".tmp")
    try {
      val us = Files.getOwner(probe)
      val owner = Files.getOwner(directory, NOFOLLOW_LINKS)
      if (owner != us) {
        throw new IOException(s"$directory belongs to ${owner.getName}, not to ${us.getName}")
      }
    } finally {
      Files.delete(probe)
    }
  }
}
