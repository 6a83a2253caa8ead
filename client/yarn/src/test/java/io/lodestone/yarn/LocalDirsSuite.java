// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LocalDirsSuite {
  @TempDir Path disks;

  private static List<Path> of(String... configured) {
    return LocalDirs.of(configured);
  }

  @Test
  void executorsRegisterBelowDirectoriesThatAreConfiguredAsUris() {
    List<Path> expected = List.of(Path.of("/disk1/nm"), Path.of("/disk 2/nm"));
    assertEquals(expected, of("file:///disk1/nm", "/disk 2/nm"));
    assertEquals(expected, of("file:/disk1/nm/", "/disk 2//nm", "hdfs://host/not/used"));
  }

  @Test
  void aDiskThatHasFailedDoesNotKeepTheNodeManagerFromStarting() throws IOException {
    Path failed = Files.createFile(disks.resolve("failed"));
    Path good = disks.resolve("good");
    Path opened = LocalDirs.open(List.of(failed, good, disks.resolve("other")), "lodestone");
    assertEquals(good.resolve("lodestone"), opened);
    assertTrue(Files.isDirectory(opened));
    try (var files = Files.list(opened)) {
      assertEquals(0, files.count());
    }
    assertThrows(IOException.class, () -> LocalDirs.open(List.of(failed), "lodestone"));
    assertThrows(IOException.class, () -> LocalDirs.open(List.of(), "lodestone"));
  }
}
