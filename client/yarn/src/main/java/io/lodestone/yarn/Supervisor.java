// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps one daemon running, from {@code start} to {@code stop}. A daemon that outlived a killed
 * NodeManager is taken over, if it is what this one would start.
 */
final class Supervisor {

  /** The NodeManager's own shutdown takes no longer. The daemon ends by itself if it needs more. */
  private static final long STOP_WAIT_S = 20;

  /** How often somebody looks after a daemon that is not ready, or that serves. */
  private static final long LOOK_EVERY_S = 60;

  /** A daemon under load answers much sooner. */
  private static final int ANSWER_WAIT_MS = 20_000;

  /** A daemon that does not answer so many times in a row never does. */
  private static final int MAX_SILENCES = 3;

  private static final Logger LOG = LoggerFactory.getLogger(Supervisor.class);

  private final DaemonCommand command;
  private final Thread thread = new Thread(this::run, "lodestone-supervisor");
  private boolean isStopping;

  /** The process that was started last: the daemon, or one that looks for it. */
  private ProcessHandle started;

  private ReadyLine serving;

  Supervisor(DaemonCommand command) {
    this.command = command;
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Ends the daemon as SIGTERM does, also before it is ready: it hands over what it can. */
  void stop() {
    Optional<ProcessHandle> last;
    synchronized (this) {
      isStopping = true;
      last =
          serving()
              .flatMap(line -> ProcessHandle.of(line.pid()))
              .or(() -> Optional.ofNullable(started));
      notifyAll();
    }
    last.ifPresent(Supervisor::terminate);
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
    Backoff backoff = new Backoff();
    try {
      while (!isStopping()) {
        long began = System.nanoTime();
        try {
          follow();
        } catch (IOException failure) {
          // The program cannot be started, or ended before it served: its log says why.
          if (!isStopping()) {
            LOG.error("No shuffle service, see {}", command.log().file(), failure);
          }
        }
        pause(backoff.pauseMs(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began)));
      }
    } catch (InterruptedException stopped) {
      // By stop().
      LOG.debug("The supervisor ends");
    }
  }

  /** Starts a daemon, and returns when it has ended. */
  private void follow() throws IOException, InterruptedException {
    ReadyLine line = ready(begin());
    Optional<ProcessHandle> daemon = ProcessHandle.of(line.pid());
    synchronized (this) {
      serving = line;
      if (isStopping) {
        // stop() has not seen it.
        daemon.ifPresent(ProcessHandle::destroy);
      }
    }
    try {
      if (daemon.isPresent()) {
        follow(daemon.get(), line);
      }
    } finally {
      synchronized (this) {
        serving = null;
      }
    }
    if (!isStopping()) {
      LOG.error("The shuffle service {} has ended, see {}", line.listen(), command.log().file());
    }
  }

  /** Ends a program that is no daemon: the next try starts another one. */
  private ReadyLine ready(Process process) throws IOException, InterruptedException {
    String line = firstLine(process);
    try {
      return ReadyLine.parse(line);
    } catch (IOException failure) {
      process.destroy();
      throw failure;
    }
  }

  private synchronized Process begin() throws IOException, InterruptedException {
    if (isStopping) {
      throw new InterruptedException("the NodeManager stops");
    }
    Process process = command.serve();
    started = process.toHandle();
    return process;
  }

  private void follow(ProcessHandle daemon, ReadyLine line) throws InterruptedException {
    boolean isFound = !daemon.equals(started);
    String how = isFound ? "Found" : "Started";
    LOG.info("{} the shuffle service {} (pid {})", how, line.listen(), line.pid());
    if (isFound && !command.isRunBy(daemon)) {
      LOG.warn("The shuffle service {} has other arguments: the next one takes over", line.pid());
      daemon.destroy();
    }
    int silences = 0;
    while (!hasEnded(daemon)) {
      command.log().limit();
      silences = isSilent(line) ? silences + 1 : 0;
      if (silences >= MAX_SILENCES) {
        LOG.error("The shuffle service {} does not answer, and is killed", line.listen());
        daemon.destroyForcibly();
      }
    }
  }

  /** Waits for a while. */
  private static boolean hasEnded(ProcessHandle daemon) throws InterruptedException {
    try {
      daemon.onExit().get(LOOK_EVERY_S, TimeUnit.SECONDS);
      return true;
    } catch (TimeoutException runs) {
      return false;
    } catch (ExecutionException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static boolean isSilent(ReadyLine line) {
    try {
      return Probe.isSilent(line.listen(), ANSWER_WAIT_MS);
    } catch (IOException failure) {
      // The daemon ends, or has too many connections.
      LOG.debug("The shuffle service {} has closed a connection", line.listen(), failure);
      return false;
    }
  }

  /**
   * Waits for the ready line. To kill a daemon whose disk hangs would lose what an earlier one
   * handed over, and the next one would meet the same disk: so the log of the NodeManager says it.
   */
  private String firstLine(Process process) throws IOException, InterruptedException {
    CompletableFuture<String> line = new CompletableFuture<>();
    Thread reader = new Thread(() -> readLine(process, line), "lodestone-ready");
    reader.setDaemon(true);
    reader.start();
    while (true) {
      try {
        return line.get(LOOK_EVERY_S, TimeUnit.SECONDS);
      } catch (TimeoutException late) {
        String log = command.log().file().toString();
        LOG.error("The shuffle service {} is not ready: a disk may hang ({})", process.pid(), log);
      } catch (ExecutionException failure) {
        throw new IOException(failure.getCause());
      }
    }
  }

  private static void readLine(Process process, CompletableFuture<String> found) {
    InputStreamReader stdout =
        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8);
    try (BufferedReader lines = new BufferedReader(stdout)) {
      String line = lines.readLine();
      found.complete(line == null ? "" : line);
    } catch (IOException failure) {
      found.completeExceptionally(failure);
    }
  }

  /** The pause before a daemon is started again: doubled with each that did not last. */
  static final class Backoff {
    static final long FIRST_MS = 1_000;
    static final long MAX_MS = 60_000;
    static final long LASTED_MS = 60_000;

    private long nextMs = FIRST_MS;

    /** Returns the pause after a daemon that ended after this time. */
    long pauseMs(long lastedMs) {
      long pauseMs = lastedMs >= LASTED_MS ? FIRST_MS : nextMs;
      nextMs = Math.min(2 * pauseMs, MAX_MS);
      return pauseMs;
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
