// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import scala.annotation.tailrec
import scala.concurrent.Future
import scala.util.Try

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.executor.fetch._
import org.apache.spark.shuffle.lodestone.plan.{LostAt, MissingBlock, Reason, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient, TaskWait}

/**
 * Finds the services that have the segments that a task reads. Every block that Spark names must be
 * there, whole.
 *
 * @param chunkBytes
 *   the size at which a chunk is complete
 */
private[remote] final class RemoteSources(
    client: ServiceClient,
    reader: LayoutReader,
    plan: ShufflePlan,
    wanted: WantedSegments,
    chunkBytes: Long,
    retryPolicy: RetryPolicy,
    context: TaskContext) extends Logged {

  /** Left: a partition of which a block is missing, or whose layout no service sends. */
  def chunks(): Either[(Int, LostAt), Seq[FetchChunk]] = find(None, shared = true)

  /**
   * @param lost
   *   services that lack a block: its replica is looked for elsewhere
   * @param shared
   *   whether a large partition may come from two services
   */
  @tailrec
  private def find(
      lost: Option[(Int, LostAt)],
      shared: Boolean): Either[(Int, LostAt), Seq[FetchChunk]] = {
    val lacking = lost.toSeq.flatMap(_._2.services)
    layouts(lacking.map(_ -> Reason.OutputLost).toMap, shared) match {
      case Left(unknown) => Left(lost.getOrElse(unknown))
      case Right(found) =>
        val picks = wanted.blocks.toSeq.sortBy(_._1).map { case (reduceId, blocks) =>
          pick(reduceId, blocks, found.getOrElse(reduceId, Nil), shared)
        }
        picks.flatMap(_.left.toOption).headOption match {
          case None => Right(picks.flatMap(_.toOption).flatten)
          // One of two services may have all that the other one lacks.
          case Some(_) if shared => find(None, shared = false)
          case Some((reduceId, more)) =>
            val all = reduceId -> more.copy(services = lacking ++ more.services)
            // If no service was asked, there is no other one to ask.
            if (more.services.isEmpty) Left(all) else find(Some(all), shared = false)
        }
    }
  }

  /** By partition. The task waits for a service only if no other one has a replica. */
  private def layouts(lacking: Map[ServiceLocation, Reason], shared: Boolean)
      : Either[(Int, LostAt), Map[Int, Seq[SourceLayout]]] = {
    val suspects = plan.versions.flatten.distinct.filter(client.isSuspect)
    val noRetry = new Rules(new RetryPolicy(0, _ => None))
    ask(lacking ++ suspects.map(_ -> Reason.FetchSuspect), noRetry, shared) match {
      case Left(_) => ask(lacking, new Rules(retryPolicy), shared = false)
      case found => found
    }
  }

  @tailrec
  private def ask(
      unreachable: Map[ServiceLocation, Reason],
      rules: Rules,
      shared: Boolean): Either[(Int, LostAt), Map[Int, Seq[SourceLayout]]] =
    wanted.sources(unreachable.keySet, shared) match {
      case Left(reduceId) =>
        Left(reduceId -> LostAt(unreachable.keys.toSeq, unreachable.values.head))
      case Right(sources) =>
        val asked = sources.map { case (service, outputs) => service -> outputs.keys }
        val answers = reader.ask(asked, rules)(wanted.blocks(_).size)
        val failed =
          for (one <- answers; reason <- one.layouts.left.toSeq) yield one.service -> reason
        if (failed.nonEmpty) {
          ask(unreachable ++ failed, rules, shared)
        } else {
          val found = for (one <- answers; layout <- one.layouts.toSeq.flatten)
            yield SourceLayout(one.service, layout, sources(one.service)(layout.reduceId))
          Right(found.groupBy(_.layout.reduceId))
        }
    }

  /** Left: the services lack a block. */
  private def pick(
      reduceId: Int,
      blocks: WantedBlocks,
      sources: Seq[SourceLayout],
      shared: Boolean): Either[(Int, LostAt), Seq[FetchChunk]] = {
    val pick = new PartitionPick(reduceId, blocks, chunkBytes, wanted.mayJoin)
    (sources, wanted.middleOf(reduceId)) match {
      case (Seq(one, other), Some(middle)) if shared => pick.share(one, other, middle)
      case _ => sources.foreach(pick.add(_))
    }
    val missing = pick.missing
    missing.headOption match {
      case None => Right(pick.result())
      case Some((mapIndex, mapId)) =>
        val services = sources.map(_.service)
        log.error(
          s"${services.map(_.hostPort).mkString(", ")} do not show all segments of " +
            s"${missing.size} blocks of partition $reduceId of ${reader.generation}")
        val first = MissingBlock(mapIndex, mapId, reduceId)
        Left(reduceId -> LostAt(services, Reason.OutputLost, Some(first)))
    }
  }

  /** A service that may have the only data is asked again for a while, and waited for. */
  private final class Rules(retryPolicy: RetryPolicy) extends LayoutRules {
    override def send[T](service: ServiceLocation)(request: () => Future[T]): Future[T] =
      retryPolicy(service)(() => !context.isInterrupted())(request)

    override def await[T](answer: Future[T]): Try[T] = {
      val awaited = TaskWait(answer)(context.killTaskIfInterrupted())
      // The requests of a killed task are not sent again: their failure says nothing of a service.
      context.killTaskIfInterrupted()
      awaited
    }

    override def isWanted: Boolean = !context.isInterrupted()
  }
}
