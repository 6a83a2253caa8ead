// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.IOException

import scala.concurrent.{Await, Future, TimeoutException}
import scala.concurrent.duration.DurationLong
import scala.util.{Failure, Success, Try}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.plan.{
  BlockFormat,
  Reason,
  ServiceLocation,
  ShuffleGeneration
}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{MapRange, PartitionLayout, SegmentLayoutReply}

/** When a task sends a request for layouts again, and how long it waits for the answer. */
private[fetch] trait LayoutRules {
  def send[T](service: ServiceLocation)(request: () => Future[T]): Future[T]
  def await[T](answer: Future[T]): Try[T]

  /** False if the task no longer needs the answer. */
  def isWanted: Boolean
}

/** The answer to one request: the layouts of these partitions, or why there are none. */
private[fetch] final case class LayoutAnswer(
    service: ServiceLocation,
    reduceIds: Seq[Int],
    layouts: Either[Reason, Seq[PartitionLayout]])

/**
 * Asks services for the layouts of partitions, all at the same time. The reader takes no layout of
 * segments in another format than its own.
 */
private[fetch] final class LayoutReader(
    client: ServiceClient,
    val generation: ShuffleGeneration,
    format: BlockFormat,
    maps: MapRange) extends Logged {
  import LayoutReader._

  /**
   * @param sources
   *   each service with the partitions for which it is asked
   * @param blocksIn
   *   about how many blocks of a partition the task reads
   */
  def ask(sources: Iterable[(ServiceLocation, Iterable[Int])], rules: LayoutRules)(
      blocksIn: Int => Int): Seq[LayoutAnswer] = {
    val asked = for {
      (service, reduceIds) <- sources.toSeq
      perPartition = math.max(1, reduceIds.iterator.map(blocksIn).max)
      part <- reduceIds.toArray.sorted.grouped(math.max(1, MaxBlocks / perPartition))
    } yield {
      val parts = new LayoutParts(() => rules.isWanted)(send(service, rules, perPartition))
      (service, part, parts.ask(maps, part))
    }
    asked.map { case (service, part, answer) =>
      val layouts = rules.await(answer).flatMap(ofFormat) match {
        case Success(replies) => Right(LayoutParts.join(replies))
        case Failure(failure) =>
          log.warn(s"${service.hostPort} sent no layout of $generation: ${failure.getMessage}")
          Left(ReadReason.of(failure, otherwise = Reason.LayoutFailed))
      }
      LayoutAnswer(service, part.toSeq, layouts)
    }
  }

  private def send(service: ServiceLocation, rules: LayoutRules, perPartition: Int)(
      maps: MapRange,
      reduceIds: Array[Int]): Future[SegmentLayoutReply] =
    rules.send(service) { () =>
      client.layout(service, generation, maps, reduceIds, reduceIds.length * perPartition)
    }

  private def ofFormat(replies: Seq[SegmentLayoutReply]): Try[Seq[SegmentLayoutReply]] =
    replies.find(_.format != format.name) match {
      case None => Success(replies)
      case Some(other) =>
        Failure(new IOException(s"segments of format ${other.format}, not ${format.name}"))
    }

  /** For a task that reads originals instead: no request is sent again. */
  def askOnce(sources: Iterable[(ServiceLocation, Iterable[Int])])(
      blocksIn: Int => Int): Seq[LayoutAnswer] = {
    val end = (client.longestLayoutMs(MaxBlocks) + GraceMs).millis.fromNow
    val once = new LayoutRules {
      override def send[T](service: ServiceLocation)(request: () => Future[T]): Future[T] =
        request()
      // Each request has its own time-out; the wait here ends if the timer is late, or if the
      // answer comes in too many parts.
      override def await[T](answer: Future[T]): Try[T] =
        try Await.ready(answer, end.timeLeft).value.get
        catch {
          case _: TimeoutException => Failure(new IOException("no answer in time"))
        }
      override def isWanted: Boolean = end.hasTimeLeft()
    }
    val (suspects, others) = sources.partition { case (service, _) => client.isSuspect(service) }
    ask(others, once)(blocksIn) ++ suspects.map { case (service, reduceIds) =>
      LayoutAnswer(service, reduceIds.toSeq, Left(Reason.FetchSuspect))
    }
  }
}

private[fetch] object LayoutReader {

  /**
   * About so many blocks in one request, whose answer has some MB if each block is one segment. A
   * service with little memory refuses that many, and gets smaller requests ([[LayoutParts]]).
   */
  private val MaxBlocks = 100000

  private val GraceMs = 1000L
}
