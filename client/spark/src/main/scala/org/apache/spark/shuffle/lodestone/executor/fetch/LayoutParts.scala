// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.IOException

import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.transport.SameThread
import org.apache.spark.shuffle.lodestone.wire.{MapRange, PartitionLayout, RefusedException}
import org.apache.spark.shuffle.lodestone.wire.{SegmentLayoutReply, Status}

/**
 * Asks a service for layouts: in parts, if it says that the answer is too large. The memory of the
 * service decides how many segments one answer has, and a block may have any number of segments.
 * So a reader cannot know the size of a part before.
 *
 * @param wanted
 *   returns false when the answer is no longer needed
 * @param send
 *   sends one request
 */
private[fetch] final class LayoutParts(wanted: () => Boolean)(
    send: (MapRange, Array[Int]) => Future[SegmentLayoutReply]) extends Logged {
  import LayoutParts._

  /** Returns the answers to all parts. `join` makes one layout for each partition of them. */
  def ask(maps: MapRange, reduceIds: Array[Int]): Future[Seq[SegmentLayoutReply]] =
    ask(List(Part(maps, reduceIds)), Vector.empty, 1)

  /** One part after another: a service that refuses the first one has little memory for answers. */
  private def ask(
      left: List[Part],
      answers: Vector[SegmentLayoutReply],
      requests: Int): Future[Seq[SegmentLayoutReply]] = left match {
    case _ :: _ if answers.nonEmpty && !wanted() =>
      Future.failed(new IOException("the layouts are no longer wanted"))
    case part :: others =>
      send(part.maps, part.reduceIds).transformWith {
        case Success(answer) => ask(others, answers :+ answer, requests + 1)
        case Failure(refused: RefusedException)
            if refused.status == Status.TooLarge && part.isDivisible &&
              requests < MaxRequests && wanted() =>
          log.info(s"The layouts are asked for in smaller parts: ${refused.getMessage}")
          ask(part.halves ::: others, answers, requests + 1)
        case Failure(failure) => Future.failed(failure)
      }(SameThread)
    case Nil => Future.successful(answers)
  }
}

private[fetch] object LayoutParts {

  /**
   * The limit of requests in place of one. A service has room for about ten times the segments of
   * its largest answer, and some halving is needed to find each partition with many of them.
   */
  private val MaxRequests = 1024

  /** What one request asks for. */
  private final case class Part(maps: MapRange, reduceIds: Array[Int]) {
    def isDivisible: Boolean = reduceIds.length > 1 || maps.end - maps.start > 1

    def halves: List[Part] =
      if (reduceIds.length > 1) {
        val (some, others) = reduceIds.splitAt(reduceIds.length / 2)
        List(copy(reduceIds = some), copy(reduceIds = others))
      } else {
        val middle = maps.start + (maps.end - maps.start) / 2
        List(copy(MapRange(maps.start, middle)), copy(MapRange(middle, maps.end)))
      }
  }

  /** Returns one layout for each partition, in the order in which these were asked for. */
  def join(answers: Seq[SegmentLayoutReply]): Seq[PartitionLayout] = {
    val parts = answers.flatMap(_.partitions)
    val byPartition = parts.groupBy(_.reduceId)
    parts.map(_.reduceId).distinct.map(reduceId => ofPartition(byPartition(reduceId)))
  }

  /** The segments of different maps take turns in the slots, and a chunk needs them in order. */
  private def ofPartition(parts: Seq[PartitionLayout]): PartitionLayout = parts match {
    case Seq(whole) => whole
    case _ =>
      val shown = parts.find(_.status == Status.Ok).getOrElse(parts.head)
      shown.copy(runs = parts.flatMap(_.runs).sortBy(_.first).toArray)
  }
}
