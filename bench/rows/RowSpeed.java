// SPDX-License-Identifier: Apache-2.0
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.io.CompressionCodec$;
import org.apache.spark.serializer.SerializerInstance;
import org.apache.spark.shuffle.lodestone.executor.rows.encoded.CheckedGroups;
import org.apache.spark.shuffle.lodestone.executor.rows.encoded.EncodedRows;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.UnsafeRowSerializer;
import org.apache.spark.unsafe.Platform;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * What encoded rows take of one core, beside Spark's format: rows of TPC-H lineitem, and rows of a
 * random key and a random double, in blocks as a map task makes them. Each loop runs in turn with
 * the others; medians of the rounds with the spread, in MB of rows per second of CPU time.
 *
 * <p>Arguments: the folder of the TPC-H tables (`make bench` makes it).
 */
public final class RowSpeed {
  private static final int ROUNDS = 9;
  // The JVM compiles these loops several times.
  private static final int WARM_UPS = 12;
  private static final int ROWS = 150_000;
  private static final int GROUP_BYTES = 128 << 10;
  private static final int HEAD_BYTES = 4;
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static long sink;

  public static void main(String[] arguments) throws Exception {
    SparkConf conf = new SparkConf(false).setMaster("local[1]").setAppName("RowSpeed");
    conf.set("spark.ui.enabled", "false");
    SparkSession spark = SparkSession.builder().config(conf).getOrCreate();
    spark.sparkContext().setLogLevel("ERROR");
    Rows lineitem = new Rows(spark.read().parquet(arguments[0] + "/lineitem.parquet"));
    Rows random = new Rows(spark.range(ROWS).selectExpr("xxhash64(id) k", "rand(1) v"));
    spark.stop();
    System.out.printf(
        "%-42s %9s %9s %23s %23s %23s%n",
        "", "Spark's %", "encoded %", "encode MB/s", "Spark's codec MB/s", "decode MB/s");
    for (String codec : List.of("lz4", "zstd")) {
      show("lineitem, 64 KiB, " + codec, lineitem, codec, 64 << 10);
      show("lineitem, 4 KiB, " + codec, lineitem, codec, 4 << 10);
      show("a random key and a double, 64 KiB, " + codec, random, codec, 64 << 10);
    }
    System.out.println("(" + sink + ")");
  }

  private static void show(String what, Rows rows, String name, int blockBytes) throws Exception {
    SparkConf conf = new SparkConf(false).set("spark.io.compression.codec", name);
    CompressionCodec codec = CompressionCodec$.MODULE$.createCodec(conf);
    SerializerInstance serializer = rows.serializer();
    EncodedRows.Writer writer = new EncodedRows.Writer(conf, serializer, GROUP_BYTES);
    EncodedRows.Codecs codecs = new EncodedRows.Codecs(conf);
    EncodedRows.Reader reader = new EncodedRows.Reader(codecs, serializer);
    CheckedGroups checked = new CheckedGroups();
    List<byte[]> blocks = rows.blocks(blockBytes);
    List<byte[]> encoded = new ArrayList<>();
    for (byte[] block : blocks) encoded.add(encode(writer, block));
    long plain = sum(blocks);
    double[] encode = new double[ROUNDS];
    double[] alone = new double[ROUNDS];
    double[] decode = new double[ROUNDS];
    long sparks = 0;
    for (int round = -WARM_UPS; round < ROUNDS; round++) {
      int at = Math.max(round, 0);
      long began = THREADS.getCurrentThreadCpuTime();
      for (byte[] block : blocks) sink += encode(writer, block).length;
      encode[at] = rate(plain, began);
      sparks = 0;
      began = THREADS.getCurrentThreadCpuTime();
      for (byte[] block : blocks) sparks += compress(codec, block);
      alone[at] = rate(plain, began);
      began = THREADS.getCurrentThreadCpuTime();
      long count = 0;
      for (byte[] block : encoded) count += read(reader, checked.apply(in(block)));
      decode[at] = rate(plain, began);
      if (count != rows.count()) throw new IllegalStateException(count + " rows came back");
    }
    writer.free();
    codecs.free();
    System.out.printf(
        "%-42s %9.1f %9.1f %23s %23s %23s%n",
        what, 100.0 * sparks / plain, 100.0 * sum(encoded) / plain,
        spread(encode), spread(alone), spread(decode));
  }

  private static byte[] encode(EncodedRows.Writer writer, byte[] block) {
    ByteArrayOutputStream out = new ByteArrayOutputStream(block.length);
    writer.open(out);
    writer.add(block, Platform.BYTE_ARRAY_OFFSET, block.length);
    writer.close();
    return out.toByteArray();
  }

  private static int compress(CompressionCodec codec, byte[] block) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(block.length);
    try (OutputStream out = codec.compressedOutputStream(bytes)) {
      out.write(block);
    }
    return bytes.size();
  }

  private static long read(EncodedRows.Reader reader, InputStream in) {
    Iterator<Tuple2<Object, Object>> records = reader.apply(in);
    long count = 0;
    while (records.hasNext()) {
      sink += ((UnsafeRow) records.next()._2()).getSizeInBytes();
      count++;
    }
    return count;
  }

  private static InputStream in(byte[] block) {
    return new ByteArrayInputStream(block);
  }

  private static long sum(List<byte[]> blocks) {
    return blocks.stream().mapToLong(block -> block.length).sum();
  }

  /** MB per second of CPU time. */
  private static double rate(long bytes, long began) {
    return bytes * 1e3 / (THREADS.getCurrentThreadCpuTime() - began);
  }

  private static String spread(double[] rates) {
    Arrays.sort(rates);
    return String.format("%,.0f (%,.0f-%,.0f)", rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
  }

  /** Rows as Spark's serializer writes them, each with its size before it. */
  private static final class Rows {
    private final List<byte[]> rows = new ArrayList<>();
    private final int fields;

    Rows(Dataset<Row> table) {
      fields = table.schema().size();
      List<InternalRow> some =
          table.queryExecution().toRdd().toJavaRDD().map(InternalRow::copy).take(ROWS);
      for (InternalRow row : some) {
        byte[] bytes = ((UnsafeRow) row).getBytes();
        rows.add(ByteBuffer.allocate(HEAD_BYTES + bytes.length)
            .putInt(bytes.length).put(bytes).array());
      }
    }

    int count() {
      return rows.size();
    }

    SerializerInstance serializer() {
      return new UnsafeRowSerializer(fields, null).newInstance();
    }

    List<byte[]> blocks(int mostBytes) {
      List<byte[]> blocks = new ArrayList<>();
      ByteArrayOutputStream block = new ByteArrayOutputStream(2 * mostBytes);
      for (byte[] row : rows) {
        block.writeBytes(row);
        if (block.size() >= mostBytes) {
          blocks.add(block.toByteArray());
          block.reset();
        }
      }
      if (block.size() > 0) blocks.add(block.toByteArray());
      return blocks;
    }
  }
}
