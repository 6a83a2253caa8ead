// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.util.Iterator;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * Records of 100 bytes that are the same for the same seed, wherever and whenever they are made.
 */
final class Records {
  static final int KEY_BYTES = 10;
  static final int VALUE_BYTES = 90;

  private Records() {}

  /** Generates {@code perMap} records in each of {@code maps} partitions. */
  static JavaPairRDD<byte[], byte[]> generate(
      JavaSparkContext context, long seed, int maps, int perMap) {
    return Numbers.upTo(context, maps)
        .mapPartitionsToPair(indexes -> ofMap(seed, indexes.next(), perMap));
  }

  private static Iterator<Tuple2<byte[], byte[]>> ofMap(long seed, int map, int count) {
    SplittableRandom random = new SplittableRandom(seed ^ (map + 1) * 0x9e3779b97f4a7c15L);
    return IntStream.range(0, count).mapToObj(n -> next(random)).iterator();
  }

  private static Tuple2<byte[], byte[]> next(SplittableRandom random) {
    return new Tuple2<>(bytes(random, KEY_BYTES), bytes(random, VALUE_BYTES));
  }

  private static byte[] bytes(SplittableRandom random, int length) {
    byte[] bytes = new byte[length];
    long word = 0;
    for (int i = 0; i < length; i++) {
      word = i % Long.BYTES == 0 ? random.nextLong() : word >>> Byte.SIZE;
      bytes[i] = (byte) word;
    }
    return bytes;
  }

  /** Returns 64 bits that change with every bit of the record (FNV-1a). */
  static long checksum(byte[] key, byte[] value) {
    return mix(mix(0xcbf29ce484222325L, key), value);
  }

  private static long mix(long start, byte[] bytes) {
    long hash = start;
    for (byte b : bytes) {
      hash = (hash ^ b & 0xff) * 0x100000001b3L;
    }
    return hash;
  }
}
