// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;

/** The commands of the daemon's program. */
final class DaemonCommand {

  /** At a start a log above this size is renamed, and replaces the last renamed one. */
  private static final long MAX_LOG_BYTES = 16L << 20;

  private final Path program;
  private final Path log;
  private final List<String> serve = new ArrayList<>();

  /**
   * The daemon announces itself in {@code state}: after a restart the NodeManager finds it again.
   */
  DaemonCommand(Path program, Path config, Path state) {
    this.program = program;
    this.log = state.resolve("daemon.log");
    add("serve", "--config", config.toString());
    add("--announce", state.resolve("announce").toString());
  }

  /** Executors register directories of the NodeManager only. */
  void executorRoots(String[] localDirs) {
    add("--executor-root", String.join(",", localDirs));
  }

  void secrets(Path directory) {
    add("--secrets", directory.toString());
  }

  /** Starts a daemon, or finds the one that serves: its ready line comes on stdout. */
  Process serve() throws IOException {
    if (Files.exists(log) && Files.size(log) > MAX_LOG_BYTES) {
      Path old = log.resolveSibling("daemon.log.1");
      Files.move(log, old, StandardCopyOption.REPLACE_EXISTING);
    }
    return start(serve);
  }

  /** Has the daemon at an address drop everything of an application. */
  Process end(String application, String service) throws IOException {
    return start(List.of("end", application, "--service", service));
  }

  Path log() {
    return log;
  }

  private Process start(List<String> arguments) throws IOException {
    List<String> words = new ArrayList<>();
    words.add(program.toString());
    words.addAll(arguments);
    return new ProcessBuilder(words)
        .redirectInput(new File("/dev/null"))
        .redirectError(ProcessBuilder.Redirect.appendTo(log.toFile()))
        .start();
  }

  private void add(String... words) {
    serve.addAll(List.of(words));
  }
}
