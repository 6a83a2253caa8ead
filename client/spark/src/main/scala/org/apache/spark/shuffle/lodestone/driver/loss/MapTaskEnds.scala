// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import org.apache.spark._
import org.apache.spark.scheduler._
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop

/**
 * Hears from Spark's scheduler which attempts of map tasks have failed. Spark's `TaskSetManager`
 * ends each attempt once, as a success or as a failure, and is deaf to what comes of it later: the
 * output of one that failed was never accepted, and never will be. That is so for the second of two
 * copies in one run of a stage as well, which is told as killed though it finished.
 *
 * Successes are passed over. They are told before `DAGScheduler` registers their output; and of two
 * in different runs of a stage readers may have the first while Spark takes the second.
 */
private[driver] final class MapTaskEnds(attempts: FailedAttempts, loop: EventLoop)
    extends SparkListener {

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit = {
    val stage = submitted.stageInfo
    stage.shuffleDepId.foreach { shuffleId =>
      loop.offer(() => attempts.began(stage.stageId, shuffleId))
    }
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
    if (MapTaskEnds.isNeverAccepted(end.reason)) {
      val task = end.taskInfo
      // Its index is the place in the run of the stage, which need not have all partitions.
      loop.offer(() => attempts.failed(end.stageId, task.partitionId, task.taskId))
      ()
    }
}

private[driver] object MapTaskEnds {

  /**
   * `Resubmitted` is a failure by its type, but comes of attempts that were accepted. What a later
   * Spark may add is not known to mean that nothing was. (How a task looks does not tell: one whose
   * result was lost looks as if it had succeeded.)
   */
  private def isNeverAccepted(reason: TaskEndReason): Boolean = reason match {
    case _: ExceptionFailure | _: TaskKilled | _: ExecutorLostFailure | _: FetchFailed |
        TaskResultLost =>
      true
    case _ => false
  }
}
