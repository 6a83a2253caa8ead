// SPDX-License-Identifier: Apache-2.0
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.network.TransportContext;
import org.apache.spark.network.server.TransportServer;
import org.apache.spark.network.shuffle.ExternalBlockHandler;
import org.apache.spark.network.shuffle.RemoteBlockPushResolver;
import org.apache.spark.network.util.MapConfigProvider;
import org.apache.spark.network.util.TransportConf;

/**
 * Spark's external shuffle service with push-merge, as YARN's NodeManager runs it, on loopback and
 * without YARN, for `lodestone-bench push --server spark=JARS`. It prints one line with its
 * address, and ends when its stdin is closed.
 */
public final class SparkShuffleService {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> settings = new HashMap<>();
    settings.put("spark.shuffle.service.db.enabled", "false");
    TransportConf conf = new TransportConf("shuffle", new MapConfigProvider(settings));
    RemoteBlockPushResolver merger = new RemoteBlockPushResolver(conf, null);
    ExternalBlockHandler handler = new ExternalBlockHandler(conf, null, merger);
    try (TransportContext context = new TransportContext(conf, handler, true);
        TransportServer server = context.createServer("127.0.0.1", 0, new ArrayList<>())) {
      System.out.println("spark ready listen=127.0.0.1:" + server.getPort());
      while (System.in.read() >= 0) {
        // Stdin carries no data: only its end matters.
      }
    }
    System.exit(0);
  }
}
