// SPDX-License-Identifier: Apache-2.0
package io.lodestone.sort;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Whole records of one file, which one map task reads. */
final class Split implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String file;
  final long offset;
  final long length;

  private Split(String file, long offset, long length) {
    this.file = file;
    this.offset = offset;
    this.length = length;
  }

  Path path() {
    return Paths.get(file);
  }

  /** Cuts the files part-* of a folder into pieces of about so many bytes. */
  static List<Split> of(Path folder, long bytes) throws IOException {
    List<Path> files = new ArrayList<>();
    try (DirectoryStream<Path> parts = Files.newDirectoryStream(folder, "part-*")) {
      parts.forEach(files::add);
    }
    Collections.sort(files);
    List<Split> splits = new ArrayList<>();
    for (Path file : files) {
      cut(file, bytes, splits);
    }
    if (splits.isEmpty()) {
      throw new IOException("no records in files part-* of " + folder);
    }
    return splits;
  }

  private static void cut(Path file, long bytes, List<Split> splits) throws IOException {
    long size = Files.size(file);
    if (size % Record.BYTES != 0) {
      throw new IOException(file + " has " + size + " bytes, which is not a multiple of 100");
    }
    long pieces = Math.max(1, (size + bytes / 2) / bytes);
    long records = size / Record.BYTES;
    for (long piece = 0; piece < pieces; piece++) {
      long begin = records * piece / pieces;
      long end = records * (piece + 1) / pieces;
      if (end > begin) {
        splits.add(
            new Split(file.toString(), begin * Record.BYTES, (end - begin) * Record.BYTES));
      }
    }
  }
}
