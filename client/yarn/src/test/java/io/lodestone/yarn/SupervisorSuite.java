// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lodestone.yarn.Supervisor.Backoff;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Real daemons. NodeManagers are killed and stopped in e2e/tests/test_yarn_service.py. */
class SupervisorSuite {
  private static final Path PROGRAM = Path.of(System.getProperty("lodestone.binary")).normalize();
  private static final long TEST_TIMEOUT_S = 30;

  /** Processes and files have no event that Java waits for. */
  private static final long LOOK_EVERY_NS = TimeUnit.MILLISECONDS.toNanos(20);

  @TempDir Path folder;
  private Path config;
  private final List<Supervisor> supervisors = new ArrayList<>();
  private final List<ProcessHandle> daemons = new ArrayList<>();

  @BeforeEach
  void configure() throws IOException {
    Path data = Files.createDirectory(folder.resolve("data"));
    config = folder.resolve("daemon.toml");
    String keys = "listen = '127.0.0.1:0'\nmemory = '16MiB'\nreserve = '0b'\ndir = '%s'\n";
    Files.writeString(config, String.format(keys, data));
    Files.setLastModifiedTime(config, FileTime.from(Instant.EPOCH));
  }

  @AfterEach
  void endAll() {
    supervisors.forEach(Supervisor::stop);
    daemons.forEach(ProcessHandle::destroyForcibly);
  }

  private DaemonCommand command(Path program) {
    return new DaemonCommand(program, config, folder);
  }

  private Supervisor start(DaemonCommand command) {
    Supervisor supervisor = new Supervisor(command);
    supervisors.add(supervisor);
    supervisor.start();
    return supervisor;
  }

  private ProcessHandle serving(Supervisor supervisor) {
    ReadyLine line = await(supervisor::serving);
    daemons.add(ProcessHandle.of(line.pid()).orElseThrow());
    return daemons.get(daemons.size() - 1);
  }

  private static <T> T await(Supplier<Optional<T>> found) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TEST_TIMEOUT_S);
    while (found.get().isEmpty()) {
      assertTrue(System.nanoTime() < deadline, "it does not come");
      LockSupport.parkNanos(LOOK_EVERY_NS);
    }
    return found.get().get();
  }

  /** Starts a daemon as a NodeManager that was killed has left it. */
  private ProcessHandle leave(DaemonCommand command) throws IOException {
    Process process = command.serve();
    daemons.add(process.toHandle());
    process.getInputStream().read();
    return process.toHandle();
  }

  @Test
  void aDaemonThatWasLeftIsKeptIfItIsWhatTheNextNodeManagerWouldStart() throws Exception {
    ProcessHandle left = leave(command(PROGRAM));
    assertEquals(left, serving(start(command(PROGRAM))));
    assertTrue(left.isAlive());
  }

  @Test
  void aDaemonThatWasLeftWithoutSecretsHandsOverToOneThatHasThem() throws Exception {
    ProcessHandle left = leave(command(PROGRAM));
    DaemonCommand now = command(PROGRAM);
    now.secrets(Files.createDirectory(folder.resolve("secrets")));
    Supervisor supervisor = start(now);
    left.onExit().get(TEST_TIMEOUT_S, TimeUnit.SECONDS);
    await(() -> supervisor.serving().filter(line -> line.pid() != left.pid()));
    ProcessHandle next = serving(supervisor);
    assertNotEquals(left, next);
    assertTrue(now.isRunBy(next));
  }

  @Test
  void aDaemonOfAnEarlierProgramOrConfigurationIsNotWhatWouldBeStarted() throws Exception {
    Path program = Files.copy(PROGRAM, folder.resolve("lodestone"));
    DaemonCommand command = command(program);
    ProcessHandle left = leave(command);
    assertTrue(command.isRunBy(left));
    Files.setLastModifiedTime(config, FileTime.from(Instant.now().plusSeconds(60)));
    assertFalse(command.isRunBy(left));
    Files.setLastModifiedTime(config, FileTime.from(Instant.EPOCH));
    Files.delete(program);
    Files.copy(PROGRAM, program);
    assertFalse(command.isRunBy(left));
  }

  @Test
  void aStopEndsADaemonThatIsNotReady() throws Exception {
    Path hangs = Files.writeString(folder.resolve("hangs"), "#!/bin/sh\nexec sleep 600\n");
    Files.setPosixFilePermissions(hangs, PosixFilePermissions.fromString("rwx------"));
    Supervisor supervisor = start(command(hangs));
    ProcessHandle child =
        await(() -> ProcessHandle.current().children().filter(this::sleeps).findAny());
    daemons.add(child);
    supervisor.stop();
    assertFalse(child.isAlive());
  }

  @Test
  void aProgramThatIsNoDaemonIsEnded() throws Exception {
    Path pids = folder.resolve("pids");
    String text = "#!/bin/sh\necho $$ >> %s\necho hello\nexec sleep 600\n";
    Path other = Files.writeString(folder.resolve("other"), String.format(text, pids));
    Files.setPosixFilePermissions(other, PosixFilePermissions.fromString("rwx------"));
    start(command(other));
    String pid = await(() -> firstLineOf(pids));
    Optional<ProcessHandle> process = ProcessHandle.of(Long.parseLong(pid));
    process.ifPresent(daemons::add);
    if (process.isPresent()) {
      process.get().onExit().get(TEST_TIMEOUT_S, TimeUnit.SECONDS);
    }
  }

  private static Optional<String> firstLineOf(Path file) {
    try {
      String text = Files.exists(file) ? Files.readString(file) : "";
      return text.contains("\n") ? text.lines().findFirst() : Optional.empty();
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  private boolean sleeps(ProcessHandle child) {
    return child.info().commandLine().orElse("").endsWith("sleep 600");
  }

  @Test
  void aDaemonThatHangsIsSilentAndOneThatAnswersIsNot() throws Exception {
    Supervisor supervisor = start(command(PROGRAM));
    ProcessHandle daemon = serving(supervisor);
    String listen = supervisor.serving().orElseThrow().listen();
    assertFalse(Probe.isSilent(listen, 10_000));
    signal("STOP", daemon);
    try {
      assertTrue(Probe.isSilent(listen, 500));
    } finally {
      signal("CONT", daemon);
    }
  }

  private static void signal(String name, ProcessHandle process) throws Exception {
    String pid = Long.toString(process.pid());
    assertEquals(
        0, new ProcessBuilder("/bin/sh", "-c", "kill -" + name + " " + pid).start().waitFor());
  }

  @Test
  void aLogThatIsTooLongIsEmptiedUnderADaemonThatKeepsWritingToIt() throws Exception {
    ProcessHandle daemon = serving(start(command(PROGRAM)));
    Path file = folder.resolve("daemon.log");
    String before = await(() -> content(file, "ready"));
    new DaemonLog(file, before.length()).limit();
    assertEquals(before, Files.readString(file), "it is not too long");
    new DaemonLog(file, before.length() - 1).limit();
    assertTrue(Files.readString(folder.resolve("daemon.log.1")).startsWith(before));
    assertFalse(Files.readString(file).contains("ready"));
    daemon.destroy();
    String after = await(() -> content(file, "stopped"));
    assertFalse(after.contains("\0"), "no hole where it was");
  }

  private static Optional<String> content(Path file, String expected) {
    try {
      return Optional.of(Files.readString(file)).filter(text -> text.contains(expected));
    } catch (IOException failure) {
      throw new IllegalStateException(failure);
    }
  }

  @Test
  void aDaemonThatDoesNotStartIsStartedLessAndLessOften() {
    Backoff backoff = new Backoff();
    List<Long> pauses = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      pauses.add(backoff.pauseMs(0));
    }
    List<Long> doubled = List.of(1000L, 2000L, 4000L, 8000L, 16000L, 32000L, 60000L, 60000L);
    assertEquals(doubled, pauses);
    assertEquals(Backoff.FIRST_MS, backoff.pauseMs(Backoff.LASTED_MS));
    assertEquals(2 * Backoff.FIRST_MS, backoff.pauseMs(0));
  }
}
