// SPDX-License-Identifier: Apache-2.0
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import java.util.function.LongSupplier;
import org.apache.spark.HashPartitioner;
import org.apache.spark.shuffle.lodestone.executor.push.records.RecordCounts;
import org.apache.spark.shuffle.lodestone.wire.BlockSequence;
import org.apache.spark.shuffle.lodestone.wire.Crc32c;
import org.apache.spark.shuffle.lodestone.wire.Ledger;
import org.apache.spark.shuffle.lodestone.wire.Segment;

/**
 * The CPU cost of the ledger: counting records at the map task, the checksum of a block's bytes
 * (the plugin computes it twice: before the push, after the fetch), the hash of a segment. Each is
 * compared with the same loop without it, in turn, on one thread; medians of the rounds with the
 * spread.
 */
public final class LedgerCost {
  private static final int ROUNDS = 9;
  private static final int RECORDS = 4_000_000;
  private static final int SEGMENT_BYTES = 10_000;
  private static final int BLOCKS = 20_000;
  private static final int PARTITIONS = 200;
  private static final int RECORD_BYTES = 100;
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static long sink;

  public static void main(String[] arguments) {
    LongSupplier records = () -> partition(null);
    LongSupplier counted = () -> partition(new RecordCounts(PARTITIONS));
    String what = "records to their partitions, without and with counting";
    double perRecord = compare(what, records, counted, RECORDS);

    byte[] block = new byte[SEGMENT_BYTES];
    new Random(1).nextBytes(block);
    ByteBuffer direct = ByteBuffer.allocateDirect(SEGMENT_BYTES).put(block);
    LongSupplier nothing = () -> blocks(direct, false);
    LongSupplier checked = () -> blocks(direct, true);
    double perBlock = compare("blocks of 10 kB, without and with crc32c", nothing, checked, BLOCKS);

    LongSupplier loop = () -> segments(false);
    LongSupplier hashed = () -> segments(true);
    double perSegment = compare("segments, without and with their hash", loop, hashed, RECORDS);

    double records1Gb = perRecord * (1e9 / RECORD_BYTES) / 1e9;
    double crc1Gb = 2 * perBlock * (1e9 / SEGMENT_BYTES) / 1e9;
    double segments1Gb = perSegment * (1e9 / SEGMENT_BYTES) / 1e9;
    System.out.printf(
        "per GB of 100-byte records in 10 kB blocks: counting %.3f, crc32c twice %.3f, "
            + "hashes %.5f CPU s%n",
        records1Gb, crc1Gb, segments1Gb);
    System.out.println("(" + sink + ")");
  }

  /** Returns the nanoseconds of CPU per item by which the second one is slower. */
  private static double compare(String what, LongSupplier without, LongSupplier with, int items) {
    double[] base = new double[ROUNDS];
    double[] more = new double[ROUNDS];
    for (int round = -3; round < ROUNDS; round++) {
      double first = cpuNs(without) / items;
      double second = cpuNs(with) / items;
      if (round >= 0) {
        base[round] = first;
        more[round] = second;
      }
    }
    Arrays.sort(base);
    Arrays.sort(more);
    int middle = ROUNDS / 2;
    System.out.printf(
        "%s: %.2f (%.2f to %.2f) and %.2f (%.2f to %.2f) ns each%n",
        what, base[middle], base[0], base[ROUNDS - 1], more[middle], more[0], more[ROUNDS - 1]);
    return more[middle] - base[middle];
  }

  private static double cpuNs(LongSupplier work) {
    long start = THREADS.getCurrentThreadCpuTime();
    sink += work.getAsLong();
    return THREADS.getCurrentThreadCpuTime() - start;
  }

  /** What a map task does with each record before it serializes it. */
  private static long partition(RecordCounts counts) {
    HashPartitioner partitioner = new HashPartitioner(PARTITIONS);
    long sum = 0;
    for (int i = 0; i < RECORDS; i++) {
      int partition = partitioner.getPartition(i * 31);
      if (counts != null) {
        counts.add(partition);
      }
      sum += partition;
    }
    // The compiler may leave out counts that nobody reads.
    for (int i = 0; counts != null && i < PARTITIONS; i++) {
      sum += counts.in(i);
    }
    return sum;
  }

  private static long blocks(ByteBuffer block, boolean check) {
    long sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
      ByteBuffer bytes = block.duplicate().clear();
      sum += check ? Crc32c.of(bytes) : bytes.get(i % SEGMENT_BYTES);
    }
    return sum;
  }

  private static long segments(boolean hash) {
    long sum = 0;
    for (int i = 0; i < RECORDS; i++) {
      Segment segment = new Segment(i & 1023, 10_000, 100, i, BlockSequence.Only());
      sum += hash ? Ledger.of(i >> 10, i, segment).checksum() : segment.crc32c();
    }
    return sum;
  }
}
