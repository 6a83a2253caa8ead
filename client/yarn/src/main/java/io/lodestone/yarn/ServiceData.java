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

  private ServiceData() {}

  /** Returns the secret; it is empty if the application does not authenticate. */
  static String secret(ByteBuffer data) throws IOException {
    String text = StandardCharsets.UTF_8.decode(data.duplicate()).toString();
    if (!text.startsWith("{")) {
      return text;
    }
    Matcher found = SECRET.matcher(text);
    if (found.find()) {
      return found.group(1);
    }
    if (text.contains("\"secret\"")) {
      throw new IOException("the application's secret is in a form that is not known");
    }
    return "";
  }
}
