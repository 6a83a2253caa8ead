// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.IOException
import java.nio.file.{FileAlreadyExistsException, Files, Path}
import java.nio.file.LinkOption.NOFOLLOW_LINKS
import java.nio.file.attribute.PosixFilePermissions

/**
 * A directory that nobody else may have prepared or may look into. We execute what is in it, and it
 * may lie in a place like /tmp where anybody can make names.
 */
private[spark] object PrivateDirectory {
  private val OwnerOnly = PosixFilePermissions.fromString("rwx------")

  /** Makes `parent/name`, or checks the one that is there. */
  def open(parent: Path, name: String): Path = {
    Files.createDirectories(parent)
    val directory = parent.resolve(name)
    try {
      Files.createDirectory(directory, PosixFilePermissions.asFileAttribute(OwnerOnly))
    } catch {
      case _: FileAlreadyExistsException => check(directory)
    }
    // Once more: the mask of the process may have taken bits away, or an older one be too generous.
    Files.setPosixFilePermissions(directory, OwnerOnly)
    directory
  }

  private def check(directory: Path): Unit = {
    if (!Files.isDirectory(directory, NOFOLLOW_LINKS)) {
      throw new IOException(s"$directory is not a directory; remove it or choose another local dir")
    }
    // Who we are is asked of the file system: names and user.name may differ in containers.
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
