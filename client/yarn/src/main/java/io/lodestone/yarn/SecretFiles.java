// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * The directory of {@code lodestone serve --secrets}: a file for each application, named by its id.
 * The daemon reads it for each connection that authenticates.
 */
final class SecretFiles {
  private final Path directory;

  SecretFiles(Path directory) throws IOException {
    this.directory = directory;
    PrivateDirectory.open(directory);
  }

  Path directory() {
    return directory;
  }

  /** Stores a secret; an application without one has no file, and the daemon refuses it. */
  void put(String application, String secret) throws IOException {
    if (secret.isEmpty()) {
      return;
    }
    // No application has such an id, and the daemon reads no file with such a name.
    Path fresh =
        Files.createTempFile(
            directory,
            ".secret-",
            ".tmp",
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    try {
      Files.write(fresh, secret.getBytes(StandardCharsets.UTF_8));
      Files.move(fresh, directory.resolve(application), StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(fresh);
    }
  }

  void remove(String application) throws IOException {
    Files.deleteIfExists(directory.resolve(application));
  }

  /** Removes the secrets of applications that ended with an earlier NodeManager. */
  void clear() throws IOException {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory)) {
      for (Path file : files) {
        Files.deleteIfExists(file);
      }
    }
  }
}
