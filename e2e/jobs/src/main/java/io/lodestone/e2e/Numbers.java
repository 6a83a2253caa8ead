// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;

/** The numbers of a job's maps, one per partition. */
final class Numbers {
  private Numbers() {}

  static JavaRDD<Integer> upTo(JavaSparkContext context, int maps) {
    List<Integer> numbers = IntStream.range(0, maps).boxed().collect(Collectors.toList());
    return context.parallelize(numbers, maps);
  }
}
