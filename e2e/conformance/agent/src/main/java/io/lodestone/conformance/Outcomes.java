// SPDX-License-Identifier: Apache-2.0
package io.lodestone.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.scalatest.Reporter;
import org.scalatest.events.Event;
import org.scalatest.events.RunAborted;
import org.scalatest.events.RunCompleted;
import org.scalatest.events.SuiteAborted;
import org.scalatest.events.TestCanceled;
import org.scalatest.events.TestFailed;
import org.scalatest.events.TestIgnored;
import org.scalatest.events.TestPending;
import org.scalatest.events.TestStarting;
import org.scalatest.events.TestSucceeded;

/**
 * Writes one line for each event of a test: time, kind, the test's name, and the message of a
 * failure, with tabs between them. It writes each line at once: when a JVM hangs and is killed, the
 * file must show the test that was running.
 */
public final class Outcomes implements Reporter {
  /** The system property that names the file. */
  private static final String FILE = "conformance.outcomes";

  private static final int LONGEST_MESSAGE = 2000;

  private final Writer out;

  /** ScalaTest calls this constructor. */
  public Outcomes() {
    try {
      Path file = Path.of(System.getProperty(FILE));
      out = Files.newBufferedWriter(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException unwritable) {
      // The directory is missing, or the disk is full.
      throw new UncheckedIOException(unwritable);
    }
  }

  @Override
  public void apply(Event event) {
    if (event instanceof TestStarting) {
      write("started", ((TestStarting) event).testName(), "");
    } else if (event instanceof TestSucceeded) {
      write("passed", ((TestSucceeded) event).testName(), "");
    } else if (event instanceof TestFailed) {
      TestFailed failed = (TestFailed) event;
      write("failed", failed.testName(), failed.message());
    } else if (event instanceof TestCanceled) {
      TestCanceled canceled = (TestCanceled) event;
      write("canceled", canceled.testName(), canceled.message());
    } else if (event instanceof TestIgnored) {
      write("ignored", ((TestIgnored) event).testName(), "");
    } else if (event instanceof TestPending) {
      write("pending", ((TestPending) event).testName(), "");
    } else {
      applyToRun(event);
    }
  }

  /** Writes the events of a suite as a whole, before or after its tests. */
  private void applyToRun(Event event) {
    if (event instanceof SuiteAborted) {
      write("aborted", "", ((SuiteAborted) event).message());
    } else if (event instanceof RunAborted) {
      write("aborted", "", ((RunAborted) event).message());
    } else if (event instanceof RunCompleted) {
      write("completed", "", "");
    }
  }

  private synchronized void write(String what, String test, String message) {
    try {
      String words = what + "\t" + oneLine(test) + "\t" + oneLine(message);
      out.write(System.currentTimeMillis() + "\t" + words + "\n");
      out.flush();
    } catch (IOException unwritable) {
      // The disk is full: a run whose outcome is lost must not look like one that ended well.
      throw new UncheckedIOException(unwritable);
    }
  }

  private static String oneLine(String text) {
    if (text == null) {
      return "";
    }
    String cut = text.length() > LONGEST_MESSAGE ? text.substring(0, LONGEST_MESSAGE) : text;
    return cut.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t");
  }
}
