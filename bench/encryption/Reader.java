// SPDX-License-Identifier: Apache-2.0
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.zip.CRC32C;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.sasl.SecretKeyHolder;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.ExecutorDiskUtils;
import org.apache.spark.network.shuffle.ExternalBlockStoreClient;
import org.apache.spark.network.shuffle.protocol.ExecutorShuffleInfo;
import org.apache.spark.network.util.MapConfigProvider;
import org.apache.spark.network.util.TransportConf;

/**
 * Spark's own client of a shuffle service reads blocks of an executor again and again, and checks
 * each of them: `Reader PORT DIRECTORY PASSES [SECRET-FILE [KEY=VALUE...]]`. It makes the blocks in
 * the directory if they are not there. With a secret it authenticates; the others are settings of
 * Spark.
 */
public final class Reader {
  private static final int MAPS = 64;
  private static final int BLOCK_BYTES = 4 << 20;
  private static final int SUB_DIRS = 64;
  private static final String APP = "application_1";

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    String[] dirs = {arguments[1]};
    int passes = Integer.parseInt(arguments[2]);
    boolean authenticates = arguments.length > 3;
    String secret = authenticates ? Files.readString(Path.of(arguments[3])).trim() : null;
    long[] sums = blocks(dirs);
    Map<String, String> settings = new HashMap<>();
    for (int at = 4; at < arguments.length; at++) {
      String[] words = arguments[at].split("=", 2);
      settings.put(words[0], words[1]);
    }
    TransportConf conf = new TransportConf("shuffle", new MapConfigProvider(settings));
    SecretKeyHolder holder =
        new SecretKeyHolder() {
          @Override
          public String getSaslUser(String app) {
            return "sparkSaslUser";
          }

          @Override
          public String getSecretKey(String app) {
            return secret;
          }
        };
    try (ExternalBlockStoreClient client =
        new ExternalBlockStoreClient(conf, holder, authenticates, 10000)) {
      client.init(APP);
      String manager = "org.apache.spark.shuffle.sort.SortShuffleManager";
      client.registerWithShuffleServer(
          "127.0.0.1", port, "1", new ExecutorShuffleInfo(dirs, SUB_DIRS, manager));
      for (int pass = 0; pass < passes; pass++) {
        read(client, port, sums);
      }
    }
    System.out.println((long) passes * MAPS * BLOCK_BYTES);
  }

  private static void read(ExternalBlockStoreClient client, int port, long[] sums)
      throws Exception {
    String[] names = new String[MAPS];
    Arrays.setAll(names, map -> "shuffle_0_" + map + "_0");
    CountDownLatch left = new CountDownLatch(MAPS);
    AtomicReference<Throwable> failed = new AtomicReference<>();
    BlockFetchingListener listener =
        new BlockFetchingListener() {
          @Override
          public void onBlockFetchSuccess(String name, ManagedBuffer data) {
            try {
              CRC32C sum = new CRC32C();
              sum.update(data.nioByteBuffer());
              if (sum.getValue() != sums[Integer.parseInt(name.split("_")[2])]) {
                failed.set(new IllegalStateException(name + " has other bytes"));
              }
            } catch (Exception failure) {
              failed.set(failure);
            }
            left.countDown();
          }

          @Override
          public void onBlockFetchFailure(String name, Throwable failure) {
            failed.set(failure);
            left.countDown();
          }
        };
    client.fetchBlocks("127.0.0.1", port, "1", names, listener, null);
    left.await();
    if (failed.get() != null) {
      throw new IllegalStateException(failed.get());
    }
  }

  /** Writes one output with one partition for each map, as Spark names them. */
  private static long[] blocks(String[] dirs) throws Exception {
    long[] sums = new long[MAPS];
    byte[] bytes = new byte[BLOCK_BYTES];
    for (int map = 0; map < MAPS; map++) {
      new Random(map).nextBytes(bytes);
      CRC32C sum = new CRC32C();
      sum.update(bytes);
      sums[map] = sum.getValue();
      File data = file(dirs, "shuffle_0_" + map + "_0.data");
      if (data.length() != BLOCK_BYTES) {
        data.getParentFile().mkdirs();
        Files.write(data.toPath(), bytes);
        File index = file(dirs, "shuffle_0_" + map + "_0.index");
        index.getParentFile().mkdirs();
        byte[] offsets = ByteBuffer.allocate(16).putLong(0).putLong(BLOCK_BYTES).array();
        Files.write(index.toPath(), offsets);
      }
    }
    return sums;
  }

  private static File file(String[] dirs, String name) {
    return new File(ExecutorDiskUtils.getFilePath(dirs, SUB_DIRS, name));
  }
}
