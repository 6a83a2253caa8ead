// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.network.TransportContext;
import org.apache.spark.network.crypto.AuthServerBootstrap;
import org.apache.spark.network.sasl.SecretKeyHolder;
import org.apache.spark.network.server.TransportServer;
import org.apache.spark.network.server.TransportServerBootstrap;
import org.apache.spark.network.shuffle.ExternalBlockHandler;
import org.apache.spark.network.shuffle.RemoteBlockPushResolver;
import org.apache.spark.network.util.MapConfigProvider;
import org.apache.spark.network.util.TransportConf;

/**
 * Spark's external shuffle service with push-merge, as YARN's NodeManager runs it, on loopback and
 * without YARN, for `lodestone-bench push --server spark=JARS`. It prints one line with its
 * address, and ends when its stdin is closed. With the name of a file as its argument, clients must
 * authenticate with the secret in it; the others are settings of Spark, as `KEY=VALUE`.
 */
public final class SparkShuffleService {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> settings = new HashMap<>();
    settings.put("spark.shuffle.service.db.enabled", "false");
    settings.put("spark.network.crypto.enabled", "true");
    for (int at = 1; at < arguments.length; at++) {
      String[] words = arguments[at].split("=", 2);
      settings.put(words[0], words[1]);
    }
    TransportConf conf = new TransportConf("shuffle", new MapConfigProvider(settings));
    RemoteBlockPushResolver merger = new RemoteBlockPushResolver(conf, null);
    ExternalBlockHandler handler = new ExternalBlockHandler(conf, null, merger);
    List<TransportServerBootstrap> bootstraps = new ArrayList<>();
    if (arguments.length > 0) {
      bootstraps.add(new AuthServerBootstrap(conf, holder(Path.of(arguments[0]))));
    }
    try (TransportContext context = new TransportContext(conf, handler, true);
        TransportServer server = context.createServer("127.0.0.1", 0, bootstraps)) {
      System.out.println("spark ready listen=127.0.0.1:" + server.getPort());
      while (System.in.read() >= 0) {
        // Stdin carries no data: only its end matters.
      }
    }
    System.exit(0);
  }

  private static SecretKeyHolder holder(Path file) throws IOException {
    String secret = Files.readString(file).trim();
    return new SecretKeyHolder() {
      @Override
      public String getSaslUser(String app) {
        return "sparkSaslUser";
      }

      @Override
      public String getSecretKey(String app) {
        return secret;
      }
    };
  }
}
