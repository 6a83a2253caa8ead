// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/** A directory that only the user of the NodeManager can enter. */
final class PrivateDirectory {
  private static final Set<PosixFilePermission> OWNER_ONLY =
      PosixFilePermissions.fromString("rwx------");

  private PrivateDirectory() {}

  static void open(Path directory) throws IOException {
    Files.createDirectories(directory.getParent());
    try {
      Files.createDirectory(directory, PosixFilePermissions.asFileAttribute(OWNER_ONLY));
    } catch (FileAlreadyExistsException expected) {
      // An earlier NodeManager has made it, or this one, as its recovery directory.
    }
    // Fails if it belongs to another user.
    Files.setPosixFilePermissions(directory, OWNER_ONLY);
  }
}
