// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/** Kills tasks that are running, and counts the bytes that all tasks have spilled to disk. */
public final class TaskKiller extends SparkListener {
  private final JavaSparkContext context;
  private final Set<Long> running = new TreeSet<>();
  private long spilledBytes;
  private int killed;

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
    running.add(task.taskInfo().taskId());
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

  /** Kills one of the running tasks, if there is one: an even luck interrupts its thread. */
  public void kill(int luck) {
    Long victim = choose(luck);
    if (victim != null && context.sc().killTaskAttempt(victim, luck % 2 == 0, "chaos")) {
      count();
    }
  }

  private synchronized Long choose(int luck) {
    Long[] ids = running.toArray(new Long[0]);
    return ids.length == 0 ? null : ids[luck / 2 % ids.length];
  }

  private synchronized void count() {
    killed++;
  }

  /** Returns the bytes on disk of all tasks that have ended, in any way. */
  public synchronized long spilledBytes() {
    return spilledBytes;
  }

  /** Returns the number of tasks that were killed. */
  public synchronized int killed() {
    return killed;
  }
}
