// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * Computes the same sums per key twice: by grouping all values, and by combining them on the way.
 */
public final class GroupAndReduce {
  private GroupAndReduce() {}

  /** Returns as JSON: how many keys, the keys on which the two ways differ, a checksum. */
  public static String run(
      JavaSparkContext context, int maps, int recordsPerMap, int keys, int partitions) {
    JavaPairRDD<Integer, Long> pairs =
        Numbers.upTo(context, maps)
            .flatMapToPair(
                map ->
                    IntStream.range(0, recordsPerMap)
                        .mapToObj(n -> pair((long) map * recordsPerMap + n, keys))
                        .iterator());
    JavaPairRDD<Integer, Long> reduced = pairs.reduceByKey(Long::sum, partitions);
    JavaPairRDD<Integer, Long> grouped =
        pairs.groupByKey(partitions).mapValues(GroupAndReduce::sum);
    long different = reduced.join(grouped).filter(both -> !isEqual(both._2())).count();
    long checksum = reduced.map(pair -> (pair._1() + 1) * pair._2()).reduce(Long::sum);
    return String.format(
        "{\"keys\": %d, \"different\": %d, \"checksum\": \"%016x\"}",
        grouped.count(), different, checksum);
  }

  private static Tuple2<Integer, Long> pair(long number, int keys) {
    long value = number * 0x9e3779b97f4a7c15L;
    return new Tuple2<>((int) Long.remainderUnsigned(value, keys), value);
  }

  private static long sum(Iterable<Long> values) {
    return StreamSupport.stream(values.spliterator(), false).mapToLong(Long::longValue).sum();
  }

  private static boolean isEqual(Tuple2<Long, Long> sums) {
    return sums._1().equals(sums._2());
  }
}
