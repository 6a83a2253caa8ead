// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.io.Serializable;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.Partitioner;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * Sorts records of 100 bytes by their first 10, as the sort benchmarks do, and checks the result:
 * how many, whether in order, and a checksum that does not depend on the order.
 */
public final class RecordSort {
  private RecordSort() {}

  /** Sorts {@code maps * recordsPerMap} records into {@code partitions}; answers as JSON. */
  public static String run(
      JavaSparkContext context, long seed, int maps, int recordsPerMap, int partitions) {
    return check(sorted(context, seed, maps, recordsPerMap, partitions));
  }

  /** Returns the records, which a read sorts. */
  public static JavaPairRDD<byte[], byte[]> sorted(
      JavaSparkContext context, long seed, int maps, int recordsPerMap, int partitions) {
    return Records.generate(context, seed, maps, recordsPerMap)
        .repartitionAndSortWithinPartitions(new KeyRanges(partitions), new KeyOrder());
  }

  /** Reads sorted records; answers as JSON. */
  public static String check(JavaPairRDD<byte[], byte[]> sorted) {
    List<Run> runs =
        sorted.mapPartitions(records -> Run.of(records).asIterator(), true).collect();
    return new SortedAnswer(runs).toJson();
  }

  /** Equal ranges of the first two bytes, which have about as many records: keys are random. */
  static final class KeyRanges extends Partitioner {
    private static final long serialVersionUID = 1L;
    private final int partitions;

    KeyRanges(int partitions) {
      this.partitions = partitions;
    }

    @Override
    public int numPartitions() {
      return partitions;
    }

    @Override
    public int getPartition(Object key) {
      byte[] bytes = (byte[]) key;
      int prefix = (bytes[0] & 0xff) << 8 | bytes[1] & 0xff;
      return prefix * partitions >>> 16;
    }
  }

  /** Bytes compare unsigned. */
  static final class KeyOrder implements Comparator<byte[]>, Serializable {
    private static final long serialVersionUID = 1L;

    @Override
    public int compare(byte[] left, byte[] right) {
      for (int i = 0; i < left.length; i++) {
        int order = (left[i] & 0xff) - (right[i] & 0xff);
        if (order != 0) {
          return order;
        }
      }
      return 0;
    }
  }

  /** The summary of one sorted partition: enough to check it and its order among the others. */
  static final class Run implements Serializable {
    private static final long serialVersionUID = 1L;
    private byte[] first;
    private byte[] last;
    private long records;
    private long checksum;
    private boolean inOrder = true;

    static Run of(Iterator<Tuple2<byte[], byte[]>> records) {
      Run run = new Run();
      KeyOrder order = new KeyOrder();
      while (records.hasNext()) {
        Tuple2<byte[], byte[]> record = records.next();
        byte[] key = record._1();
        run.first = run.first == null ? key : run.first;
        run.inOrder &= run.last == null || order.compare(run.last, key) <= 0;
        run.last = key;
        run.records++;
        run.checksum += Records.checksum(key, record._2());
      }
      return run;
    }

    Iterator<Run> asIterator() {
      return java.util.Collections.singletonList(this).iterator();
    }
  }

  /** All runs, one after the other. */
  private static final class SortedAnswer {
    private long records;
    private long checksum;
    private boolean inOrder = true;

    SortedAnswer(List<Run> runs) {
      byte[] last = null;
      for (Run run : runs) {
        records += run.records;
        checksum += run.checksum;
        inOrder &= run.inOrder;
        if (run.records > 0) {
          inOrder &= last == null || new KeyOrder().compare(last, run.first) <= 0;
          last = run.last;
        }
      }
    }

    String toJson() {
      return String.format(
          "{\"records\": %d, \"inOrder\": %b, \"checksum\": \"%016x\"}",
          records, inOrder, checksum);
    }
  }
}
