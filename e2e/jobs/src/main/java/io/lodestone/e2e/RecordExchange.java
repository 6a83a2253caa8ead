// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.util.Iterator;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * Shuffles records of 100 bytes and does nothing with them: the time of such a job is that of the
 * shuffle. Keys are random, so that the blocks of a map are of about one size.
 */
public final class RecordExchange {
  private RecordExchange() {}

  /** Returns the records, which a read shuffles into {@code partitions}. */
  public static JavaPairRDD<byte[], byte[]> exchanged(
      JavaSparkContext context, long seed, int maps, int recordsPerMap, int partitions) {
    return Records.generate(context, seed, maps, recordsPerMap)
        .partitionBy(new RecordSort.KeyRanges(partitions));
  }

  /** Reads all records; returns their number and an order-independent checksum as JSON. */
  public static String check(JavaPairRDD<byte[], byte[]> exchanged) {
    Tuple2<Long, Long> total =
        exchanged
            .mapPartitions(RecordExchange::sums)
            .reduce((a, b) -> new Tuple2<>(a._1() + b._1(), a._2() + b._2()));
    return String.format("{\"records\": %d, \"checksum\": \"%016x\"}", total._1(), total._2());
  }

  private static Iterator<Tuple2<Long, Long>> sums(Iterator<Tuple2<byte[], byte[]>> records) {
    long count = 0;
    long checksum = 0;
    while (records.hasNext()) {
      Tuple2<byte[], byte[]> record = records.next();
      count++;
      checksum += Records.checksum(record._1(), record._2());
    }
    return java.util.Collections.singletonList(new Tuple2<>(count, checksum)).iterator();
  }
}
