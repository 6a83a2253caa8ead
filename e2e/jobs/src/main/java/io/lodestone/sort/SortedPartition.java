// SPDX-License-Identifier: Apache-2.0
package io.lodestone.sort;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.unsafe.array.LongArray;
import org.apache.spark.unsafe.memory.MemoryBlock;
import org.apache.spark.util.collection.unsafe.sort.RadixSort;
import scala.Tuple2;

/** Copies the records of one partition to pages, sorts their indexes, and writes them to a file. */
final class SortedPartition {
  private static final int PAGE_RECORDS = 10_000;
  private static final int WRITE_BYTES = 1 << 20;
  private static final int LAST_BYTE = Long.BYTES - 1;

  private final List<byte[]> pages = new ArrayList<>();
  private int records;

  private SortedPartition() {}

  /**
   * Reads all, and writes them in order; the file appears whole or not at all. Returns how many.
   */
  static long write(Iterator<Tuple2<Record, Record>> records, Path file, long attempt)
      throws IOException {
    SortedPartition partition = new SortedPartition();
    records.forEachRemaining(pair -> partition.add(pair._1()));
    Path unfinished = file.resolveSibling("." + file.getFileName() + "." + attempt);
    try (FileChannel out =
        FileChannel.open(
            unfinished, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.WRITE)) {
      partition.writeInOrder(out);
    }
    Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE);
    return partition.records;
  }

  private void add(Record record) {
    int inPage = records % PAGE_RECORDS;
    if (inPage == 0) {
      pages.add(new byte[PAGE_RECORDS * Record.BYTES]);
    }
    byte[] page = pages.get(pages.size() - 1);
    System.arraycopy(record.bytes, record.offset, page, inPage * Record.BYTES, Record.BYTES);
    records++;
  }

  private byte[] pageOf(long index) {
    return pages.get((int) (index / PAGE_RECORDS));
  }

  private static int offsetOf(long index) {
    return (int) (index % PAGE_RECORDS) * Record.BYTES;
  }

  /** Pairs of a record's index and its key's prefix, as Spark's radix sort wants them. */
  private long[] pairs() {
    // The array is twice as long as the pairs: the sort moves between its halves.
    long[] pairs = new long[4 * records];
    for (int index = 0; index < records; index++) {
      pairs[2 * index] = index;
      pairs[2 * index + 1] = Record.prefix(pageOf(index), offsetOf(index));
    }
    return pairs;
  }

  private void writeInOrder(FileChannel out) throws IOException {
    long[] pairs = pairs();
    LongArray array = new LongArray(MemoryBlock.fromLongArray(pairs));
    int start = RadixSort.sortKeyPrefixArray(array, 0, records, 0, LAST_BYTE, false, false);
    orderEqualPrefixes(pairs, start);
    ByteBuffer buffer = ByteBuffer.allocate(WRITE_BYTES / Record.BYTES * Record.BYTES);
    for (int i = 0; i < records; i++) {
      long index = pairs[start + 2 * i];
      buffer.put(pageOf(index), offsetOf(index), Record.BYTES);
      if (!buffer.hasRemaining() || i == records - 1) {
        buffer.flip();
        while (buffer.hasRemaining()) {
          out.write(buffer);
        }
        buffer.clear();
      }
    }
  }

  /** Orders records with equal prefixes by the rest of their keys. */
  private void orderEqualPrefixes(long[] pairs, int start) {
    int from = 0;
    while (from < records) {
      int to = from + 1;
      while (to < records && pairs[start + 2 * to + 1] == pairs[start + 2 * from + 1]) {
        to++;
      }
      if (to - from > 1) {
        orderByRest(pairs, start + 2 * from, to - from);
      }
      from = to;
    }
  }

  private void orderByRest(long[] pairs, int start, int count) {
    long[] run = new long[count];
    for (int i = 0; i < count; i++) {
      long index = pairs[start + 2 * i];
      long rest = Record.rest(pageOf(index), offsetOf(index));
      run[i] = rest << Integer.SIZE | index;
    }
    Arrays.sort(run);
    for (int i = 0; i < count; i++) {
      pairs[start + 2 * i] = run[i] & 0xffffffffL;
    }
  }
}
