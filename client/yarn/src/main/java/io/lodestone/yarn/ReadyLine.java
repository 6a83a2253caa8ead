// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The line that a daemon prints when it serves, or that names the one which serves already. */
final class ReadyLine {
  private static final Pattern LISTEN = Pattern.compile(" listen=(\\S+)");
  private static final Pattern PID = Pattern.compile(" pid=(\\d{1,18})\\b");

  private final String listen;
  private final long pid;

  private ReadyLine(String listen, long pid) {
    this.listen = listen;
    this.pid = pid;
  }

  static ReadyLine parse(String line) throws IOException {
    Matcher listen = LISTEN.matcher(line);
    Matcher pid = PID.matcher(line);
    if (!line.startsWith("lodestone ready ") || !listen.find() || !pid.find()) {
      throw new IOException("in place of its ready line the daemon printed '" + line + "'");
    }
    return new ReadyLine(listen.group(1), Long.parseLong(pid.group(1)));
  }

  String listen() {
    return listen;
  }

  long pid() {
    return pid;
  }
}
