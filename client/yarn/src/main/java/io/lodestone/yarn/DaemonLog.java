// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The log of the daemon. It appends to its file, so the file can be emptied meanwhile. */
final class DaemonLog {
  private static final Logger LOG = LoggerFactory.getLogger(DaemonLog.class);

  private final Path file;
  private final long maxBytes;

  DaemonLog(Path file, long maxBytes) {
    this.file = file;
    this.maxBytes = maxBytes;
  }

  Path file() {
    return file;
  }

  /**
   * Copies a log that is too long, in place of the last copy, and empties it. A daemon that writes
   * to it keeps it: to rename it would take it away.
   */
  void limit() {
    try {
      if (Files.exists(file) && Files.size(file) > maxBytes) {
        Path copy = file.resolveSibling(file.getFileName() + ".1");
        Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
        FileChannel.open(file, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)
            .close();
      }
    } catch (IOException failure) {
      // The disk of the NodeManager. The daemon drops lines that it cannot write.
      LOG.warn("{} is over {} bytes and cannot be emptied", file, maxBytes, failure);
    }
  }
}
