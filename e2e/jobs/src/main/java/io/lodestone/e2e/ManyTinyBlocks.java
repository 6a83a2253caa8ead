// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.util.stream.IntStream;
import org.apache.spark.HashPartitioner;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/** The worst shuffle for Spark: every map has one small record for every partition. */
public final class ManyTinyBlocks {
  private ManyTinyBlocks() {}

  /** Shuffles {@code maps * partitions} blocks of one record each; answers as JSON. */
  public static String run(JavaSparkContext context, int maps, int partitions) {
    JavaPairRDD<Integer, Long> blocks =
        Numbers.upTo(context, maps)
            .flatMapToPair(
                map ->
                    IntStream.range(0, partitions)
                        .mapToObj(p -> new Tuple2<>(p, (long) map * partitions + p))
                        .iterator())
            .partitionBy(new HashPartitioner(partitions));
    Tuple2<Long, Long> total =
        blocks
            .map(block -> new Tuple2<>(1L, checksum(block._1(), block._2())))
            .reduce((a, b) -> new Tuple2<>(a._1() + b._1(), a._2() + b._2()));
    return String.format(
        "{\"records\": %d, \"checksum\": \"%016x\"}", total._1(), total._2());
  }

  private static long checksum(int partition, long value) {
    return (value ^ partition) * 0x9e3779b97f4a7c15L;
  }
}
