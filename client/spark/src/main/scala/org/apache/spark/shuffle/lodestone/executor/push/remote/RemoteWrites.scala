// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.engine.FramePush
import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, DriverQuestion, PlanCache}
import org.apache.spark.shuffle.lodestone.executor.link.StageAttempt
import org.apache.spark.shuffle.lodestone.executor.push.{MapAttempt, SegmentBuffers}
import org.apache.spark.shuffle.lodestone.plan.{LodestoneHandle, NoPlan, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}

/** Makes the writers of remote shuffles on one executor. */
private[lodestone] final class RemoteWrites(
    conf: LodestoneConf,
    client: ServiceClient,
    driver: DriverLink,
    plans: PlanCache,
    buffers: SegmentBuffers,
    retryPolicy: RetryPolicy) extends Logged {
  import RemoteWrites._

  private val means =
    PushMeans(client, plans, retryPolicy, RetryPolicy.whenReplicated(conf, client))

  /** Frames wait on the heap, whatever `push.memory` allows beside it. */
  private val frameMeans = {
    val waitingBytes = math.min(conf.pushMemoryBytes, Runtime.getRuntime.maxMemory / HeapParts)
    new FrameMeans(buffers, waitingBytes, conf.pushMemoryBytes)
  }

  /**
   * Returns None if the map task keeps its output.
   *
   * @param engines
   *   the output as an engine writes it, if the blocks are its frames
   */
  def writer[K, V](
      handle: LodestoneHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter,
      engines: => Option[EngineOutput[K, V]] = None): Option[ShuffleWriter[K, V]] =
    attempt(handle, mapId, context) { makePush =>
      val push = makePush(() => context.killTaskIfInterrupted())
      engines match {
        case Some(local) =>
          new RemoteFrameWriter[K, V](
            handle.dependency,
            local,
            push,
            buffers,
            context,
            metrics,
            driver.report)
        case None =>
          new RemoteMapWriter[K, V](
            handle.dependency,
            handle.format,
            push,
            buffers,
            context,
            metrics,
            driver.report)
      }
    }

  /** Returns None if the map task keeps its output, which the engine writes then. */
  def frames(
      handle: LodestoneHandle[_, _, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): Option[FramePush] =
    attempt(handle, mapId, context) { makePush =>
      new RemoteFramePush(handle.dependency, frameMeans, context, metrics, driver.report)(makePush)
    }

  /** @param make gets what makes a push, of what throws when its task has ended */
  private def attempt[T](handle: LodestoneHandle[_, _, _], mapId: Long, context: TaskContext)(
      make: ((() => Unit) => RequiredPush) => T): Option[T] = {
    val shuffleMergeId = handle.dependency.shuffleMergeId
    val attempt = MapAttempt(handle.shuffleId, shuffleMergeId, context.partitionId(), mapId)
    val stageAttempt = StageAttempt(context.stageId(), context.stageAttemptNumber())
    planFor(attempt, stageAttempt, () => context.killTaskIfInterrupted()).map { plan =>
      make(alive => new RequiredPush(attempt, plan, means, alive))
    }
  }

  private def planFor(
      attempt: MapAttempt,
      stageAttempt: StageAttempt,
      alive: () => Unit): Option[ShufflePlan] = {
    val answer = DriverQuestion(s"services for $attempt", alive) {
      plans.toPush(attempt.shuffleId, attempt.shuffleMergeId, stageAttempt)
    }
    answer match {
      case plan: ShufflePlan => Some(plan)
      case NoPlan(reason, _) =>
        log.info(s"$attempt keeps its output: $reason")
        None
    }
  }
}

private object RemoteWrites {

  /** One part of the heap, at most, has frames that wait for others. */
  private val HeapParts = 8
}
