// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The local directories of a NodeManager, {@code yarn.nodemanager.local-dirs}. */
final class LocalDirs {
  private static final Logger LOG = LoggerFactory.getLogger(LocalDirs.class);

  private LocalDirs() {}

  /** Returns the paths of those that YARN uses: each is a path, or its URI. */
  static List<Path> of(String[] configured) {
    List<Path> paths = new ArrayList<>();
    for (String one : configured) {
      URI uri = new org.apache.hadoop.fs.Path(one).toUri();
      if (uri.getScheme() == null || uri.getScheme().equals("file")) {
        paths.add(Paths.get(uri.getPath()));
      }
    }
    return paths;
  }

  /**
   * Makes a directory of this name below the first local directory that can be written to. YARN
   * goes on without those whose disk has failed.
   */
  static Path open(List<Path> localDirs, String name) throws IOException {
    IOException failed = new IOException("no local directory can be written to: " + localDirs);
    for (Path localDir : localDirs) {
      try {
        Path directory = localDir.resolve(name);
        PrivateDirectory.open(directory);
        Files.delete(Files.createTempFile(directory, ".probe-", ".tmp"));
        return directory;
      } catch (IOException failure) {
        // A disk that has failed, or is not mounted or full.
        LOG.warn("{} is not used: {}", localDir, failure.toString());
        failed.addSuppressed(failure);
      }
    }
    throw failed;
  }
}
