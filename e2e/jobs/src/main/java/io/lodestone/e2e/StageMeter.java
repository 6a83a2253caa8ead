// SPDX-License-Identifier: Apache-2.0
package io.lodestone.e2e;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.executor.ShuffleReadMetrics;
import org.apache.spark.executor.ShuffleWriteMetrics;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/**
 * For benchmarks: sums the metrics of tasks by stage, and creates an empty file in a folder when a
 * stage has ended, as a signal for another process.
 */
public final class StageMeter extends SparkListener {
  private static final long EVENTS_TIMEOUT_MS = 30_000;
  private static final double NANOS_PER_MILLI = 1e6;

  private final JavaSparkContext context;
  private final Path ended;
  private final Map<Integer, Sums> stages = new TreeMap<>();

  private StageMeter(JavaSparkContext context, Path ended) {
    this.context = context;
    this.ended = ended;
  }

  /** Listens to an application from now on. */
  public static StageMeter of(JavaSparkContext context, String ended) {
    StageMeter meter = new StageMeter(context, Paths.get(ended));
    context.sc().addSparkListener(meter);
    return meter;
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd task) {
    stages.computeIfAbsent(task.stageId(), id -> new Sums()).add(task);
  }

  @Override
  public void onStageCompleted(SparkListenerStageCompleted stage) {
    int id = stage.stageInfo().stageId();
    try {
      Files.createFile(ended.resolve(id + "." + stage.stageInfo().attemptNumber()));
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  /** Returns a JSON array of the stages that had tasks since the last call. */
  public String take() throws TimeoutException {
    // The events of tasks that have ended may still be on their way.
    context.sc().listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS);
    return taken();
  }

  private synchronized String taken() {
    String all =
        stages.entrySet().stream()
            .map(stage -> stage.getValue().toJson(stage.getKey()))
            .collect(Collectors.joining(", ", "[", "]"));
    stages.clear();
    return all;
  }

  /** One stage. Times of day and durations in milliseconds. */
  private static final class Sums {
    private long tasks;
    private long failed;
    private long began = Long.MAX_VALUE;
    private long ended;
    private long runMs;
    private long cpuNanos;
    private long gcMs;
    private long fetchWaitMs;
    private long readBytes;
    private long readBlocks;
    private long readRecords;
    private long mergedBytes;
    private long writtenBytes;
    private long writtenRecords;
    private long spilledBytes;

    void add(SparkListenerTaskEnd task) {
      tasks++;
      failed += task.taskInfo().successful() ? 0 : 1;
      began = Math.min(began, task.taskInfo().launchTime());
      ended = Math.max(ended, task.taskInfo().finishTime());
      // A task whose executor was lost has none.
      if (task.taskMetrics() != null) {
        add(task.taskMetrics());
      }
    }

    private void add(TaskMetrics metrics) {
      runMs += metrics.executorRunTime();
      cpuNanos += metrics.executorCpuTime();
      gcMs += metrics.jvmGCTime();
      spilledBytes += metrics.diskBytesSpilled();
      ShuffleReadMetrics read = metrics.shuffleReadMetrics();
      fetchWaitMs += read.fetchWaitTime();
      readBytes += read.totalBytesRead();
      readBlocks += read.totalBlocksFetched();
      readRecords += read.recordsRead();
      mergedBytes += read.localMergedBytesRead() + read.remoteMergedBytesRead();
      ShuffleWriteMetrics write = metrics.shuffleWriteMetrics();
      writtenBytes += write.bytesWritten();
      writtenRecords += write.recordsWritten();
    }

    String toJson(int stage) {
      return String.format(
          "{\"stage\": %d, \"tasks\": %d, \"failed\": %d, \"beganMs\": %d, \"endedMs\": %d, "
              + "\"runMs\": %d, \"cpuMs\": %.0f, \"gcMs\": %d, \"fetchWaitMs\": %d, "
              + "\"readBytes\": %d, \"readBlocks\": %d, \"readRecords\": %d, "
              + "\"mergedBytes\": %d, \"writtenBytes\": %d, \"writtenRecords\": %d, "
              + "\"spilledBytes\": %d}",
          stage, tasks, failed, began, ended, runMs, cpuNanos / NANOS_PER_MILLI, gcMs,
          fetchWaitMs, readBytes, readBlocks, readRecords, mergedBytes, writtenBytes,
          writtenRecords, spilledBytes);
    }
  }
}
