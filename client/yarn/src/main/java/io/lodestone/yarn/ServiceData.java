// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What Spark sends with a container: the secret as text, or an object of JSON with it if the
 * application wants no recovery ({@code spark.yarn.shuffle.server.recovery.disabled}).
 */
final class ServiceData {

  /** Spark makes the secret: hexadecimal digits. */
  private static final Pattern SECRET = Pattern.compile("\"secret\"\\s*:\\s*\"([^\"\\\\]+)\"");

  private final String secret;
  private final boolean outlivesNodeManager;

  private ServiceData(String secret, boolean outlivesNodeManager) {
    this.secret = secret;
    this.outlivesNodeManager = outlivesNodeManager;
  }

  static ServiceData parse(ByteBuffer data) throws IOException {
    String text = StandardCharsets.UTF_8.decode(data.duplicate()).toString();
    if (!text.startsWith("{")) {
      return new ServiceData(text, true);
    }
    Matcher found = SECRET.matcher(text);
    if (!found.find() && text.contains("\"secret\"")) {
      throw new IOException("the application's secret is in a form that is not known");
    }
    return new ServiceData(found.reset().find() ? found.group(1) : "", false);
  }

  /** Returns the secret; it is empty if the application does not authenticate. */
  String secret() {
    return secret;
  }

  /** Returns false if the next NodeManager must not find the secret. */
  boolean outlivesNodeManager() {
    return outlivesNodeManager;
  }
}
