// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps one daemon running, from {@code start} to {@code stop}. A daemon that outlived a killed
 * NodeManager is taken over.
 */
final class Supervisor {

  /** The pause before a daemon is started again: doubled with each that did not last. */
  private static final long FIRST_PAUSE_MS = 1_000;

  private static final long MAX_PAUSE_MS = 60_000;
  private static final long LASTED_MS = 60_000;

  /** The NodeManager's own shutdown takes no longer. The daemon ends by itself if it needs more. */
  private static final long STOP_WAIT_S = 20;

  private static final Logger LOG = LoggerFactory.getLogger(Supervisor.class);

  private final DaemonCommand command;
  private final Thread thread = new Thread(this::run, "lodestone-supervisor");
  private boolean isStopping;
  private ReadyLine serving;

  Supervisor(DaemonCommand command) {
    this.command = command;
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Ends the daemon as SIGTERM does: it hands over to the next one what it can. */
  void stop() {
    Optional<ReadyLine> last;
    synchronized (this) {
      isStopping = true;
      last = serving();
      notifyAll();
    }
    last.flatMap(line -> ProcessHandle.of(line.pid())).ifPresent(Supervisor::terminate);
    thread.interrupt();
  }

  /** Returns the daemon that serves, if one does. */
  synchronized Optional<ReadyLine> serving() {
    return Optional.ofNullable(serving);
  }

  DaemonCommand command() {
    return command;
  }

  private static void terminate(ProcessHandle daemon) {
    daemon.destroy();
    try {
      daemon.onExit().get(STOP_WAIT_S, TimeUnit.SECONDS);
    } catch (TimeoutException late) {
      LOG.warn("The shuffle service {} is still writing out its data", daemon.pid());
    } catch (InterruptedException interrupted) {
      // The NodeManager does not wait for its end.
      Thread.currentThread().interrupt();
    } catch (ExecutionException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private void run() {
    long pauseMs = FIRST_PAUSE_MS;
    try {
      while (!isStopping()) {
        long began = System.nanoTime();
        try {
          follow();
        } catch (IOException failure) {
          // The program cannot be started, or ended before it served: its log says why.
          LOG.error("No shuffle service, see {}", command.log(), failure);
        }
        long lastedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        pauseMs = lastedMs >= LASTED_MS ? FIRST_PAUSE_MS : pauseMs;
        pause(pauseMs);
        pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS);
      }
    } catch (InterruptedException stopped) {
      // By stop().
      LOG.debug("The supervisor ends");
    }
  }

  /** Starts a daemon, and returns when it has ended. */
  private void follow() throws IOException, InterruptedException {
    Process process = command.serve();
    ReadyLine line = ReadyLine.parse(firstLine(process));
    boolean isFound = line.pid() != process.pid();
    String how = isFound ? "found" : "started";
    LOG.info("{} the shuffle service {} (pid {})", how, line.listen(), line.pid());
    Optional<ProcessHandle> daemon = ProcessHandle.of(line.pid());
    boolean isWanted;
    synchronized (this) {
      serving = line;
      isWanted = !isStopping;
    }
    try {
      if (daemon.isPresent()) {
        if (!isWanted) {
          daemon.get().destroy();
        }
        daemon.get().onExit().get();
      }
    } catch (ExecutionException impossible) {
      throw new IllegalStateException(impossible);
    } finally {
      synchronized (this) {
        serving = null;
      }
    }
    if (!isStopping()) {
      LOG.error("The shuffle service {} has ended, see {}", line.listen(), command.log());
    }
  }

  private static String firstLine(Process process) throws IOException {
    InputStreamReader stdout =
        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8);
    try (BufferedReader lines = new BufferedReader(stdout)) {
      String line = lines.readLine();
      return line == null ? "" : line;
    }
  }

  private synchronized boolean isStopping() {
    return isStopping;
  }

  private synchronized void pause(long ms) throws InterruptedException {
    if (!isStopping) {
      wait(ms);
    }
  }
}
