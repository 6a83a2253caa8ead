// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.status.api.v1.ThreadStackTrace;
import scala.Option;

/** Kills tasks that are running, and counts the bytes that all tasks have spilled to disk. */
public final class TaskKiller extends SparkListener {
  private static final Pattern TASK = Pattern.compile("TID (\\d+)");

  /** A spill of Spark's, or of Lodestone's writers. */
  private static final Pattern SPILLS = Pattern.compile("\\.spill\\(|\\.Spill\\$?\\.write\\(");

  private static final ThreadStackTrace[] NONE = {};

  /** A kill looks for a spill so often, with this pause in between. */
  private static final int LOOKS = 50;

  private static final long PAUSE_MS = 20;

  private final JavaSparkContext context;

  /** The executor of each task. */
  private final Map<Long, String> running = new TreeMap<>();

  private long spilledBytes;
  private int killed;
  private int killedInSpill;

  private TaskKiller(JavaSparkContext context) {
    this.context = context;
  }

  /** Listens to an application from now on. */
  public static TaskKiller of(JavaSparkContext context) {
    TaskKiller killer = new TaskKiller(context);
    context.sc().addSparkListener(killer);
    return killer;
  }

  @Override
  public synchronized void onTaskStart(SparkListenerTaskStart task) {
    running.put(task.taskInfo().taskId(), task.taskInfo().executorId());
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd task) {
    running.remove(task.taskInfo().taskId());
    TaskMetrics metrics = task.taskMetrics();
    // A task whose executor was lost has none.
    if (metrics != null) {
      spilledBytes += metrics.diskBytesSpilled();
    }
  }

  /**
   * Kills one of the running tasks, if there is one: an even luck interrupts its thread. A task
   * that spills comes first, also one that begins to soon.
   */
  public void kill(int luck) throws InterruptedException {
    List<Long> spilling = spilling();
    for (int look = 1; look < LOOKS && spilling.isEmpty(); look++) {
      // Spark has no event for the beginning of a spill.
      Thread.sleep(PAUSE_MS);
      spilling = spilling();
    }
    Long victim = choose(luck, spilling.isEmpty() ? running() : spilling);
    if (victim != null && context.sc().killTaskAttempt(victim, luck % 2 == 0, "chaos")) {
      count(spilling.contains(victim));
    }
  }

  private static Long choose(int luck, List<Long> tasks) {
    return tasks.isEmpty() ? null : tasks.get(luck / 2 % tasks.size());
  }

  private synchronized List<Long> running() {
    return new ArrayList<>(running.keySet());
  }

  private synchronized Iterable<String> executors() {
    return new TreeSet<>(running.values());
  }

  /** Asks the executors for the stacks of their threads, and returns the tasks that spill. */
  private List<Long> spilling() {
    List<Long> found = new ArrayList<>();
    for (String executor : executors()) {
      Option<ThreadStackTrace[]> threads = context.sc().getExecutorThreadDump(executor);
      for (ThreadStackTrace thread : threads.isEmpty() ? NONE : threads.get()) {
        Matcher task = TASK.matcher(thread.threadName());
        if (task.find() && SPILLS.matcher(thread.stackTrace().toString()).find()) {
          found.add(Long.valueOf(task.group(1)));
        }
      }
    }
    return found;
  }

  private synchronized void count(boolean inSpill) {
    killed++;
    killedInSpill += inSpill ? 1 : 0;
  }

  /** Returns the bytes on disk of all tasks that have ended, in any way. */
  public synchronized long spilledBytes() {
    return spilledBytes;
  }

  /** Returns the number of tasks that were killed. */
  public synchronized int killed() {
    return killed;
  }

  /** Returns how many of these were spilling when their executor was asked. */
  public synchronized int killedInSpill() {
    return killedInSpill;
  }
}
