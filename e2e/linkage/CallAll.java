// SPDX-License-Identifier: Apache-2.0

import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.serializer.JavaSerializer;
import org.apache.spark.shuffle.lodestone.executor.fetch.SparkSorter$;
import org.apache.spark.shuffle.lodestone.executor.push.records.MapStatuses$;
import org.apache.spark.shuffle.lodestone.executor.push.records.RowChecksums;
import org.apache.spark.shuffle.lodestone.executor.push.records.RowChecksums$;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.collection.ExternalSorter;
import scala.Option;
import scala.Product2;
import scala.Tuple2;
import scala.collection.JavaConverters;

/**
 * Calls the classes that the jar looks up in Spark. They have no reference that can be checked:
 * only a call shows whether they exist. Prints the result of each call.
 */
final class CallAll {
  public static void main(String[] arguments) throws Exception {
    SparkSession spark =
        SparkSession.builder()
            .master("local[1]")
            .appName("linkage")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.adaptive.enabled", "false")
            // Releases without these keys ignore them.
            .config("spark.sql.shuffle.orderIndependentChecksum.enabled", "true")
            .config("spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch", "true")
            .getOrCreate();
    try {
      long checksum = rowChecksum(spark);
      System.out.println("rows have a checksum: " + (checksum != 0));
      System.out.println("a map status holds it: " + statusHolds(spark, checksum));
      System.out.println("sorted: " + sorted(spark));
    } finally {
      spark.stop();
    }
  }

  /** Returns the checksum of two rows of a SQL shuffle, by partition; 0 if Spark makes none. */
  private static long rowChecksum(SparkSession spark) {
    ShuffleDependency<?, ?, ?> dependency = exchange(spark);
    RowChecksums rows = RowChecksums$.MODULE$.apply(dependency);
    rows.add(0, 0, row(7));
    long first = rows.value();
    rows.add(1, 1, row(8));
    if (first != 0 && rows.value() == first) {
      throw new IllegalStateException("the second row made no difference");
    }
    return rows.value();
  }

  private static ShuffleDependency<?, ?, ?> exchange(SparkSession spark) {
    RDD<?> rdd = spark.range(10).repartition(2).queryExecution().toRdd();
    while (!(rdd.dependencies().head() instanceof ShuffleDependency)) {
      rdd = rdd.dependencies().head().rdd();
    }
    return (ShuffleDependency<?, ?, ?>) rdd.dependencies().head();
  }

  private static UnsafeRow row(long value) {
    UnsafeRow row = new UnsafeRow(1);
    row.pointTo(new byte[16], 16);
    row.setLong(0, value);
    return row;
  }

  private static boolean statusHolds(SparkSession spark, long checksum) throws Exception {
    BlockManagerId here = BlockManagerId.apply("7", "host", 7000, Option.empty());
    RowChecksums rows =
        new RowChecksums() {
          @Override
          public void add(int partition, Object key, Object value) {}

          @Override
          public long value() {
            return checksum;
          }
        };
    MapStatus status = MapStatuses$.MODULE$.apply(here, new long[] {100, 0, 300}, 42L, rows);
    if (!status.location().equals(here)
        || status.mapId() != 42
        || status.getSizeForBlock(1) != 0
        || Math.abs(status.getSizeForBlock(2) - 300) > 30) {
      throw new IllegalStateException("the map status has other content: " + status);
    }
    for (var method : status.getClass().getMethods()) {
      if (method.getName().equals("checksumValue")) {
        return (long) method.invoke(status) == checksum;
      }
    }
    return false;
  }

  /** Sorts in a task, as a reduce task does. */
  private static List<Integer> sorted(SparkSession spark) {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
    return context.parallelize(Arrays.asList(3, 1, 2), 1).mapPartitions(CallAll::sort).collect();
  }

  @SuppressWarnings("unchecked")
  private static Iterator<Integer> sort(Iterator<Integer> numbers) {
    scala.math.Ordering<Object> ordering =
        (scala.math.Ordering<Object>) (scala.math.Ordering<?>) scala.math.Ordering.Int$.MODULE$;
    JavaSerializer serializer = new JavaSerializer(org.apache.spark.SparkEnv.get().conf());
    ExternalSorter<Object, Object, Object> sorter =
        SparkSorter$.MODULE$.apply(TaskContext.get(), ordering, serializer);
    Iterable<Integer> all = () -> numbers;
    Iterator<Product2<Object, Object>> pairs =
        StreamSupport.stream(all.spliterator(), false)
            .map(number -> (Product2<Object, Object>) new Tuple2<Object, Object>(number, number))
            .iterator();
    sorter.insertAll(JavaConverters.asScalaIteratorConverter(pairs).asScala());
    Iterator<Product2<Object, Object>> inOrder =
        JavaConverters.asJavaIteratorConverter(sorter.iterator()).asJava();
    Iterable<Product2<Object, Object>> result = () -> inOrder;
    return StreamSupport.stream(result.spliterator(), false)
        .map(pair -> (Integer) pair._1())
        .collect(Collectors.toList())
        .iterator();
  }
}
