// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.scheduler.bench;

import org.apache.spark.SparkContext;
import org.apache.spark.deploy.LocalSparkCluster;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend;
import org.apache.spark.storage.BlockManagerId;
import scala.Option;

/**
 * Lets stock Spark push without YARN. Push-based shuffle requires a master named {@code yarn} and a
 * backend that knows the mergers. This one accepts the name, is Spark's own local cluster of
 * executor processes, and uses the external shuffle service of this host as the merger.
 */
public final class StockPushCluster implements ExternalClusterManager {
  private static final String WORKERS = "spark.bench.workers";
  private static final String WORKER_CORES = "spark.bench.workerCores";
  private static final String WORKER_MEMORY_MB = "spark.bench.workerMemoryMb";

  /** Another name of the merger's host: readers then fetch from it, and do not open its files. */
  private static final String MERGER_HOST = "spark.bench.mergerHost";

  @Override
  public boolean canCreate(String master) {
    return master.equals("yarn");
  }

  @Override
  public TaskScheduler createTaskScheduler(SparkContext context, String master) {
    return new TaskSchedulerImpl(context);
  }

  @Override
  public SchedulerBackend createSchedulerBackend(
      SparkContext context, String master, TaskScheduler scheduler) {
    LocalSparkCluster cluster =
        LocalSparkCluster.apply(
            context.conf().getInt(WORKERS, 2),
            context.conf().getInt(WORKER_CORES, 1),
            context.conf().getInt(WORKER_MEMORY_MB, 1024),
            context.conf());
    return new Backend((TaskSchedulerImpl) scheduler, context, cluster);
  }

  @Override
  public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }

  /** A standalone cluster's backend that names mergers, as YARN's does. */
  private static final class Backend extends StandaloneSchedulerBackend {
    private final SparkContext context;
    private final LocalSparkCluster cluster;

    Backend(TaskSchedulerImpl scheduler, SparkContext context, LocalSparkCluster cluster) {
      super(scheduler, context, cluster.start());
      this.context = context;
      this.cluster = cluster;
    }

    // Spark 3.5 and Spark 4 use two kinds of Seq: a List is both.
    @Override
    @SuppressWarnings("unchecked")
    public scala.collection.immutable.Seq<BlockManagerId> getShufflePushMergerLocations(
        int partitions, int resourceProfile) {
      scala.collection.immutable.Set<String> noneExcluded =
          scala.collection.immutable.Set$.MODULE$.<String>empty();
      scala.collection.immutable.List<BlockManagerId> known =
          context
              .env()
              .blockManager()
              .master()
              .getShufflePushMergerLocations(partitions, noneExcluded)
              .toList();
      Option<String> host = context.conf().getOption(MERGER_HOST);
      if (host.isEmpty() || known.isEmpty()) {
        return known;
      }
      BlockManagerId renamed =
          BlockManagerId.apply(
              known.head().executorId(), host.get(), known.head().port(), Option.empty());
      return scala.collection.immutable.List$.MODULE$
          .<BlockManagerId>empty()
          .$colon$colon(renamed);
    }

    @Override
    public void stop() {
      super.stop();
      cluster.stop();
    }
  }
}
