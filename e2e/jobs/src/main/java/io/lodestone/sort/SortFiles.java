// SPDX-License-Identifier: Apache-2.0
package io.lodestone.sort;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.ShuffledRDD;
import scala.Tuple2;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Sorts the records of the Sort Benchmark in files part-* of one folder into files part-* of
 * another, which must be empty. It works with any shuffle manager of Spark.
 */
public final class SortFiles {
  private static final long SAMPLE_SEED = 1;

  private SortFiles() {}

  /** Returns as JSON how many records it wrote. */
  public static String run(
      JavaSparkContext context, String input, String output, long splitBytes, int partitions)
      throws IOException {
    Path folder = Files.createDirectories(Paths.get(output));
    try (java.util.stream.Stream<Path> there = Files.list(folder)) {
      if (there.findAny().isPresent()) {
        throw new IOException(folder + " is not empty: remove what is in it, or choose another");
      }
    }
    List<Split> splits = Split.of(Paths.get(input), splitBytes);
    KeyRanges ranges = KeyRanges.sampled(splits, partitions, SAMPLE_SEED);
    JavaPairRDD<Record, Record> records =
        context
            .parallelize(splits, splits.size())
            .mapPartitionsToPair(mine -> new SplitReader(mine.next()));
    long written =
        shuffled(records, ranges)
            .mapPartitions(partition -> write(partition, output))
            .reduce(Long::sum);
    return String.format(
        "{\"records\": %d, \"maps\": %d, \"partitions\": %d}", written, splits.size(), partitions);
  }

  private static JavaPairRDD<Record, Record> shuffled(
      JavaPairRDD<Record, Record> records, KeyRanges ranges) {
    ClassTag<Record> type = ClassTag$.MODULE$.apply(Record.class);
    ShuffledRDD<Record, Record, Record> shuffled =
        new ShuffledRDD<>(records.rdd(), ranges, type, type, type);
    return JavaPairRDD.fromRDD(shuffled.setSerializer(new RecordSerializer()), type, type);
  }

  private static Iterator<Long> write(Iterator<Tuple2<Record, Record>> records, String output)
      throws IOException {
    TaskContext task = TaskContext.get();
    Path file = Paths.get(output, String.format("part-%05d", task.partitionId()));
    long written = SortedPartition.write(records, file, task.taskAttemptId());
    return Collections.singletonList(written).iterator();
  }
}
