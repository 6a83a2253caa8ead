// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/** The commands of the daemon's program. */
final class DaemonCommand {

  /** Above this size the log is copied, in place of the last copy, and begins again. */
  private static final long MAX_LOG_BYTES = 16L << 20;

  /** The system knows the second in which a process has started, and its clock may be corrected. */
  private static final Duration START_IS_KNOWN_WITHIN = Duration.ofSeconds(2);

  private final Path program;
  private final Path config;
  private final DaemonLog log;
  private final List<String> serve = new ArrayList<>();

  /**
   * The daemon announces itself in {@code state}: after a restart the NodeManager finds it again.
   */
  DaemonCommand(Path program, Path config, Path state) {
    this.program = program;
    this.config = config;
    this.log = new DaemonLog(state.resolve("daemon.log"), MAX_LOG_BYTES);
    add(program.toString(), "serve", "--config", config.toString());
    add("--announce", state.resolve("announce").toString());
  }

  /** Executors register directories of the NodeManager only. */
  void executorRoots(List<Path> localDirs) {
    add("--executor-root", localDirs.stream().map(Path::toString).collect(Collectors.joining(",")));
  }

  void secrets(Path directory) {
    add("--secrets", directory.toString());
  }

  /** Starts a daemon, or finds the one that serves: its ready line comes on stdout. */
  Process serve() throws IOException {
    log.limit();
    return start(serve);
  }

  /**
   * Returns true if a process is what {@code serve} would start now: this program with these
   * arguments, and the configuration file as it is.
   */
  boolean isRunBy(ProcessHandle daemon) {
    Path process = Paths.get("/proc", Long.toString(daemon.pid()));
    try {
      String words = Files.readString(process.resolve("cmdline"));
      // The name has another end if the program was replaced.
      Path running = Files.readSymbolicLink(process.resolve("exe"));
      return words.equals(String.join("\0", serve) + "\0")
          && running.equals(program.toRealPath())
          && !isChangedSince(daemon.info().startInstant());
    } catch (IOException failure) {
      // It has ended meanwhile, or the program or the file is missing.
      return false;
    }
  }

  private boolean isChangedSince(Optional<Instant> start) throws IOException {
    Instant changed = Files.getLastModifiedTime(config).toInstant();
    return start.isPresent() && changed.isAfter(start.get().plus(START_IS_KNOWN_WITHIN));
  }

  /** Has the daemon at an address drop everything of an application. */
  Process end(String application, String service) throws IOException {
    return start(List.of(program.toString(), "end", application, "--service", service));
  }

  DaemonLog log() {
    return log;
  }

  private Process start(List<String> words) throws IOException {
    return new ProcessBuilder(words)
        .redirectInput(new File("/dev/null"))
        .redirectError(ProcessBuilder.Redirect.appendTo(log.file().toFile()))
        .start();
  }

  private void add(String... words) {
    serve.addAll(List.of(words));
  }
}
