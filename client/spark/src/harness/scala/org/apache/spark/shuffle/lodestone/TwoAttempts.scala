// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.{CyclicBarrier, TimeUnit}

import scala.concurrent.{blocking, Await, ExecutionContext, Future}
import scala.concurrent.duration.DurationInt

import org.apache.spark._
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.MapStatus

/**
 * Two attempts of each map of a shuffle, at the same time, as with speculation. Spark's scheduler
 * copies no task in local mode, so each attempt is a job of one task, and the outputs of those that
 * win are registered in the place of the scheduler.
 */
private[lodestone] object TwoAttempts {

  /** What a map task does. */
  type Write = (RDD[_], ShuffleDependency[_, _, _], Partition, TaskContext) => MapStatus

  private val Fails = "two-attempts.fails"
  private val WaitS = 60
  private val Middle = 300
  private val together = new CyclicBarrier(2)

  /** The rows, in the middle of which two attempts of a map meet, and some fail. */
  def meeting(rows: RDD[(Int, String)]): RDD[(Int, String)] = rows.mapPartitions { found =>
    found.zipWithIndex.map { case (row, i) =>
      if (i == Middle) meet()
      row
    }
  }

  private def meet(): Unit = {
    val task = TaskContext.get()
    // Spark repeats a task that fails.
    if (task.attemptNumber() == 0) together.await(WaitS.toLong, TimeUnit.SECONDS)
    if (task.getLocalProperty(Fails) != null) {
      throw new IllegalStateException("on purpose: this attempt has lost")
    }
  }

  /** Writes all maps of a shuffle. The attempts that lose end well, except those of every third. */
  def writeAll(spark: SparkContext, of: ShuffleDependency[_, _, _])(write: Write): Unit = {
    val maps = of.rdd.getNumPartitions
    val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    tracker.registerShuffle(of.shuffleId, maps, of.partitioner.numPartitions)
    for (map <- 0 until maps) {
      val attempts = Seq(false, map % 3 == 2).map(attempt(spark, of, map, _)(write))
      // Where both have written, the one that was begun last wins in turn.
      val winner = if (map % 3 == 1) attempts.last else attempts.head
      tracker.registerMapOutput(of.shuffleId, map, Await.result(winner, WaitS.seconds))
      attempts.foreach(Await.ready(_, WaitS.seconds))
    }
  }

  private def attempt(
      spark: SparkContext,
      of: ShuffleDependency[_, _, _],
      map: Int,
      fails: Boolean)(write: Write): Future[MapStatus] = {
    val rdd: RDD[_] = of.rdd
    val part = rdd.partitions(map)
    // The task gets the number of the map.
    val alone = spark.parallelize(0 to map, map + 1)
    Future {
      spark.setLocalProperty(Fails, if (fails) "true" else null)
      def task(context: TaskContext, none: Iterator[Int]): MapStatus =
        write(rdd, of, part, context)
      blocking(spark.runJob(alone, task _, Seq(map)).head)
    }(ExecutionContext.global)
  }

  /** What Spark's map tasks do. */
  val byWriter: Write = (rdd, of, part, context) => {
    val writer = SparkEnv.get.shuffleManager.getWriter[Any, Any](
      of.shuffleHandle,
      context.taskAttemptId(),
      context,
      context.taskMetrics().shuffleWriteMetrics)
    writer.write(rdd.iterator(part, context).asInstanceOf[Iterator[Product2[Any, Any]]])
    writer.stop(success = true).get
  }
}
