// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tells the daemon which applications have ended, one after another, on a thread of its own. */
final class Endings {

  /** If more end while the daemon does not answer, it keeps the registrations of the rest. */
  private static final int MAX_WAITING = 1_024;

  /** The command ends much sooner, also if the daemon does not answer. */
  private static final long COMMAND_WAIT_S = 90;

  /** Exit code if the daemon holds nothing of the application, such as one without a shuffle. */
  private static final int NOTHING_KNOWN = 3;

  private static final Logger LOG = LoggerFactory.getLogger(Endings.class);

  private final Supervisor daemon;
  private final ThreadPoolExecutor thread =
      new ThreadPoolExecutor(
          1,
          1,
          0,
          TimeUnit.SECONDS,
          new ArrayBlockingQueue<>(MAX_WAITING),
          task -> {
            Thread one = new Thread(task, "lodestone-endings");
            one.setDaemon(true);
            return one;
          },
          (task, full) -> LOG.warn("Too many applications end at once"));

  Endings(Supervisor daemon) {
    this.daemon = daemon;
  }

  void add(String application) {
    thread.execute(() -> tell(application));
  }

  void stop() {
    thread.shutdownNow();
  }

  private void tell(String application) {
    // One that is not there holds nothing in memory, and forgets executors without directories.
    daemon.serving().ifPresent(line -> tell(application, line.listen()));
  }

  private void tell(String application, String service) {
    try {
      Process command = daemon.command().end(application, service);
      if (!command.waitFor(COMMAND_WAIT_S, TimeUnit.SECONDS)) {
        command.destroyForcibly();
      } else if (command.exitValue() == 0 || command.exitValue() == NOTHING_KNOWN) {
        return;
      }
      LOG.warn("{} does not know of the end of {}", service, application);
    } catch (IOException failure) {
      // The program cannot be started: removed meanwhile, or the host has no room for a process.
      LOG.warn("{} does not know of the end of {}", service, application, failure);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }
}
