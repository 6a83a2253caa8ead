// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import scala.annotation.tailrec
import scala.concurrent.Future

import org.slf4j.LoggerFactory

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.lodestone.executor.fetch.{LayoutRequest, ReadReason}
import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.{
  RetryPolicy,
  SameThread,
  ServiceClient,
  TaskWait
}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, PartitionLayout}

/** What one service has of the partitions for which it was asked. */
private[remote] final case class SourceLayout(
    service: ServiceLocation,
    wanted: Map[Int, WantedBlocks],
    layouts: Seq[PartitionLayout]) {
  private val byPartition = layouts.map(layout => layout.reduceId -> layout).toMap

  def of(reduceId: Int): Option[PartitionLayout] = byPartition.get(reduceId)
}

/** Asks services where in their partitions the segments are that a task reads. */
private[remote] final class SourceLayouts(
    client: ServiceClient,
    generation: ShuffleGeneration,
    plan: ShufflePlan,
    maps: MapRange,
    patience: RetryPolicy,
    context: TaskContext) {
  import SourceLayouts._

  /**
   * Left: a partition of which no service tells. While there is a copy elsewhere nobody is waited for.
   *
   * @param without
   *   services that have not all that they should have
   */
  def apply(
      wanted: WantedSegments,
      without: Seq[ServiceLocation]): Either[(Int, LostAt), Seq[SourceLayout]] = {
    val lacking: Map[ServiceLocation, Reason] = without.map(_ -> Reason.OutputLost).toMap
    val suspects = plan.versions.flatten.distinct.filter(client.isSuspect)
    ask(wanted, lacking ++ suspects.map(_ -> Reason.FetchSuspect), Impatient) match {
      case Left(_) => ask(wanted, lacking, patience)
      case found => found
    }
  }

  @tailrec
  private def ask(
      wanted: WantedSegments,
      unreachable: Map[ServiceLocation, Reason],
      patience: RetryPolicy): Either[(Int, LostAt), Seq[SourceLayout]] =
    wanted.sources(unreachable.keySet) match {
      case Left(reduceId) =>
        Left(reduceId -> LostAt(unreachable.keys.toSeq, unreachable.values.head))
      case Right(sources) =>
        val asked = sources.toSeq.map { case (service, partitions) =>
          (service, partitions, layoutsAt(service, partitions, patience))
        }
        val answers = asked.map { case (service, partitions, answer) =>
          val awaited = TaskWait(answer)(context.killTaskIfInterrupted())
          (service, partitions, awaited)
        }
        // For a task that was killed nobody waits, and what then fails says nothing of a service.
        context.killTaskIfInterrupted()
        val failed = answers.flatMap { case (service, _, answer) =>
          answer.failed.toOption.map(service -> reasonOf(service, _))
        }
        if (failed.nonEmpty) {
          ask(wanted, unreachable ++ failed, patience)
        } else {
          Right(answers.map { case (service, partitions, answer) =>
            SourceLayout(service, partitions, answer.get)
          })
        }
    }

  private def reasonOf(service: ServiceLocation, failure: Throwable): Reason = {
    log.warn(
      s"${service.hostPort} did not tell the layout of $generation: ${failure.getMessage}")
    ReadReason.of(failure, otherwise = Reason.LayoutFailed)
  }

  private def layoutsAt(
      service: ServiceLocation,
      partitions: Map[Int, WantedBlocks],
      patience: RetryPolicy): Future[Seq[PartitionLayout]] = {
    val perPartition = math.max(1, partitions.valuesIterator.map(_.size).max)
    val perRequest = math.max(1, LayoutRequest.MaxSegments / perPartition)
    implicit val sameThread: SameThread.type = SameThread
    val requests = partitions.keys.toArray.sorted.grouped(perRequest).toSeq
    val asked = requests.map { part =>
      patience(service)(() => !context.isInterrupted()) { () =>
        client.layout(service, generation, maps, part, part.length * perPartition)
      }
    }
    Future.sequence(asked).map(_.flatMap(_.partitions))
  }
}

private object SourceLayouts {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[SourceLayouts])

  private val Impatient = new RetryPolicy(0, _ => None)
}
