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

  /** No application has such an id, and the daemon reads no file with such a name. */
  private static final String UNFINISHED = ".secret-";

  /** An empty file beside a secret that ends with this NodeManager. */
  private static final String MARK = ".ends-";

  private final Path directory;

  SecretFiles(Path directory) throws IOException {
    this.directory = directory;
    PrivateDirectory.open(directory);
  }

  Path directory() {
    return directory;
  }

  /** Stores a secret; an application without one has no file, and the daemon refuses it. */
  void put(String application, ServiceData data) throws IOException {
    if (data.secret().isEmpty()) {
      return;
    }
    Path mark = mark(application);
    if (!data.outlivesNodeManager() && !Files.exists(mark)) {
      Files.createFile(mark);
    }
    Path fresh =
        Files.createTempFile(
            directory,
            UNFINISHED,
            ".tmp",
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    try {
      Files.write(fresh, data.secret().getBytes(StandardCharsets.UTF_8));
      Files.move(fresh, directory.resolve(application), StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(fresh);
    }
  }

  void remove(String application) throws IOException {
    Files.deleteIfExists(directory.resolve(application));
    Files.deleteIfExists(mark(application));
  }

  /**
   * Removes what an earlier NodeManager must not leave: secrets of applications that want no
   * recovery, and files that it did not finish when it was killed. YARN sends the former again with
   * each container that still runs.
   */
  void sweep() throws IOException {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory)) {
      for (Path file : files) {
        String name = file.getFileName().toString();
        if (name.startsWith(UNFINISHED)) {
          Files.deleteIfExists(file);
        } else if (name.startsWith(MARK)) {
          remove(name.substring(MARK.length()));
        }
      }
    }
  }

  /** Removes the secrets of applications that ended with an earlier NodeManager. */
  void clear() throws IOException {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory)) {
      for (Path file : files) {
        Files.deleteIfExists(file);
      }
    }
  }

  private Path mark(String application) {
    return directory.resolve(MARK + application);
  }
}
