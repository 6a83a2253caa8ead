// SPDX-License-Identifier: Apache-2.0
package io.lodestone.sort;

/**
 * A record of the Sort Benchmark somewhere in an array. One such object shows many, one after the
 * other.
 */
final class Record {
  static final int BYTES = 100;
  static final int KEY_BYTES = 10;
  private static final int BITS = 8;
  private static final int BYTE = 0xff;

  byte[] bytes;
  int offset;

  Record(byte[] bytes) {
    this.bytes = bytes;
  }

  /** The first eight bytes of the key, to be compared unsigned. */
  long prefix() {
    return prefix(bytes, offset);
  }

  /** The rest of the key, after the prefix. */
  int rest() {
    return rest(bytes, offset);
  }

  static long prefix(byte[] bytes, int offset) {
    long prefix = 0;
    for (int i = 0; i < Long.BYTES; i++) {
      prefix = prefix << BITS | bytes[offset + i] & BYTE;
    }
    return prefix;
  }

  static int rest(byte[] bytes, int offset) {
    int at = offset + Long.BYTES;
    return (bytes[at] & BYTE) << BITS | bytes[at + 1] & BYTE;
  }
}
