// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.slf4j.LoggerFactory

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, DriverQuestion, RemotePlans}
import org.apache.spark.shuffle.lodestone.executor.link.StageAttempt
import org.apache.spark.shuffle.lodestone.plan.{LodestoneHandle, NoPlan, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}

/** The writing side of remote shuffles on one executor. */
private[lodestone] final class RemoteWrites(
    conf: LodestoneConf,
    client: ServiceClient,
    driver: DriverLink,
    plans: RemotePlans,
    patience: RetryPolicy) {
  import RemoteWrites._

  private val means =
    PushMeans(client, plans, patience, RetryPolicy.whenReplicated(conf, client))
  private val bodies = new Bodies(conf.pushBatchSizeBytes.toInt, conf.pushMemoryBytes)

  /** None: the map task keeps its output. */
  def writer[K, V](
      handle: LodestoneHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): Option[ShuffleWriter[K, V]] = {
    val mergeId = handle.dependency.shuffleMergeId
    val attempt = MapAttempt(handle.shuffleId, mergeId, context.partitionId(), mapId)
    val run = StageAttempt(context.stageId(), context.stageAttemptNumber())
    val alive = () => context.killTaskIfInterrupted()
    planFor(attempt, run, alive).map { plan =>
      val push = new AttemptPush(attempt, plan, means, alive)
      new RemoteMapWriter[K, V](handle.dependency, push, bodies, context, metrics, driver.report)
    }
  }

  private def planFor(
      attempt: MapAttempt,
      run: StageAttempt,
      alive: () => Unit): Option[ShufflePlan] = {
    val answer = DriverQuestion(s"where $attempt pushes to", alive) {
      plans.toPush(attempt.shuffleId, attempt.mergeId, run)
    }
    answer match {
      case plan: ShufflePlan => Some(plan)
      case NoPlan(code, _) =>
        log.info(s"$attempt keeps its output: $code")
        None
    }
  }
}

private[lodestone] object RemoteWrites {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[RemoteWrites])
}
