// SPDX-License-Identifier: Apache-2.0
package io.lodestone.sort;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.spark.Partitioner;

/**
 * Ranges of keys with about as many records each, from a sample of the input. Bounds are prefixes
 * of eight bytes: records with the same prefix go to one partition.
 */
final class KeyRanges extends Partitioner {
  private static final long serialVersionUID = 1L;
  private static final int SAMPLES_PER_PARTITION = 200;

  /** Adjacent records are read together, with one seek. */
  private static final int RECORDS_PER_READ = 50;

  /** Partition p has the keys from bound p-1, included, to bound p, excluded. */
  private final long[] bounds;

  private KeyRanges(long[] bounds) {
    this.bounds = bounds;
  }

  /** Reads some records at random positions, the same ones for the same seed. */
  static KeyRanges sampled(List<Split> splits, int partitions, long seed) throws IOException {
    int reads = Math.max(1, partitions * SAMPLES_PER_PARTITION / RECORDS_PER_READ);
    Random random = new Random(seed);
    long[] keys = new long[reads * RECORDS_PER_READ];
    int count = 0;
    for (int i = 0; i < reads; i++) {
      count += read(splits.get(random.nextInt(splits.size())), random, keys, count);
    }
    long[] sorted = unsigned(Arrays.copyOf(keys, count));
    long[] bounds = new long[partitions - 1];
    for (int p = 1; p < partitions; p++) {
      bounds[p - 1] = sorted[(int) ((long) count * p / partitions)];
    }
    return new KeyRanges(bounds);
  }

  private static int read(Split split, Random random, long[] keys, int at) throws IOException {
    int records = (int) Math.min(RECORDS_PER_READ, split.length / Record.BYTES);
    long starts = split.length / Record.BYTES - records + 1;
    long position = split.offset + Math.floorMod(random.nextLong(), starts) * Record.BYTES;
    ByteBuffer buffer = ByteBuffer.allocate(records * Record.BYTES);
    try (FileChannel file = FileChannel.open(split.path(), StandardOpenOption.READ)) {
      while (buffer.hasRemaining() && file.read(buffer, position + buffer.position()) >= 0) {
        // until all are there
      }
    }
    for (int i = 0; i < records; i++) {
      keys[at + i] = Record.prefix(buffer.array(), i * Record.BYTES);
    }
    return records;
  }

  private static long[] unsigned(long[] keys) {
    return Arrays.stream(keys).map(KeyRanges::flip).sorted().map(KeyRanges::flip).toArray();
  }

  private static long flip(long key) {
    return key ^ Long.MIN_VALUE;
  }

  @Override
  public int numPartitions() {
    return bounds.length + 1;
  }

  @Override
  public int getPartition(Object key) {
    long prefix = ((Record) key).prefix();
    int low = 0;
    int high = bounds.length;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (Long.compareUnsigned(bounds[middle], prefix) <= 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KeyRanges && Arrays.equals(bounds, ((KeyRanges) other).bounds);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bounds);
  }
}
