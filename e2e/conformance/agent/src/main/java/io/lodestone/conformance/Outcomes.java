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
 * One line for each event of a test: when, what, the test's name, and how a failure is worded, with
 * tabs between them. Each line is written at once: a JVM that hangs is killed, and what it was at
 * must be known then.
 */
public final class Outcomes implements Reporter {
  /** Where the lines go to: this system property names a file. */
  private static final String FILE = "conformance.outcomes";

  private static final int LONGEST_MESSAGE = 2000;

  private final Writer out;

  /** ScalaTest makes it. */
  public Outcomes() {
    try {
      Path file = Path.of(System.getProperty(FILE));
      out = Files.newBufferedWriter(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException unwritable) {
      // The directory is not there, or the disk is full.
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

  /** What is said of a suite as a whole, before or after its tests. */
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
