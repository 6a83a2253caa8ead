// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch.remote

import java.util.concurrent.TimeUnit

import scala.concurrent.Future

import org.apache.spark.shuffle.lodestone.driver.{RemotePlan, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.fetch.{ChunkCut, ChunkRescue, MergedChunk}
import org.apache.spark.shuffle.lodestone.transport._
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, MapRange, PartitionLayout}

/**
 * A chunk that cannot be had from one service is read from another one that has the same segments; if
 * there is none, the first one is asked again for a while.
 */
private[remote] final class RemoteRescue(
    client: ServiceClient,
    generation: ShuffleGeneration,
    plan: RemotePlan,
    patience: Patience)
    extends ChunkRescue {
  import RemoteRescue._

  override val insists: Boolean = true

  override def apply(
      reduceId: Int,
      chunk: MergedChunk,
      cause: Throwable,
      failedNs: Long): Future[Option[MergedChunk]] =
    if (patience.hasTime(failedNs)) {
      copyOf(reduceId, chunk, others(reduceId, chunk.service)).flatMap {
        case None if mayPass(chunk.service, cause, failedNs) =>
          RequestTimer.pause(PauseMs).map(_ => Some(chunk))(SameThread)
        case copy => Future.successful(copy)
      }(SameThread)
    } else {
      Future.successful(None)
    }

  /** What was damaged on the way is whole the next time; what is damaged where it lies is not. */
  private def mayPass(service: ServiceLocation, cause: Throwable, failedNs: Long): Boolean =
    FailureClass.of(cause) match {
      case FailureClass.Corrupt => System.nanoTime() - failedNs < DamageNs
      case _ => patience.isWorthIt(service, cause, failedNs)
    }

  /** One after another, until one has all of it. */
  private def copyOf(
      reduceId: Int,
      chunk: MergedChunk,
      services: List[ServiceLocation]): Future[Option[MergedChunk]] = services match {
    case Nil => Future.successful(None)
    case service :: rest =>
      client
        .layout(service, generation, mapsOf(chunk), Array(reduceId), chunk.segments.length)
        .map(reply => reply.partitions.headOption.flatMap(sameSegments(service, _, chunk)))(
          SameThread)
        .recover { case _ => None }(SameThread)
        .flatMap {
          case None => copyOf(reduceId, chunk, rest)
          case copy => Future.successful(copy)
        }(SameThread)
  }

  /** A segment that has the same name, length and checksum is the same one, wherever it is. */
  private def sameSegments(
      service: ServiceLocation,
      layout: PartitionLayout,
      chunk: MergedChunk): Option[MergedChunk] = {
    val wanted = chunk.segments.toSet
    val cut = new ChunkCut(service, Long.MaxValue)
    var found = Set.empty[LaidSegment]
    for (run <- layout.runs; (segment, i) <- run.segments.zipWithIndex) {
      if (wanted.contains(segment) && !found.contains(segment)) {
        found += segment
        cut.add(run.first + i, segment)
      }
    }
    if (found.size == wanted.size) cut.result().headOption else None
  }

  private def others(reduceId: Int, failed: ServiceLocation): List[ServiceLocation] = {
    val holders = plan.versions.indices.flatMap { version =>
      plan.servicesOf(version, plan.groupOf(version, reduceId))
    }
    holders.distinct.filterNot(service => service == failed || client.isSuspect(service)).toList
  }

  private def mapsOf(chunk: MergedChunk): MapRange = {
    val indexes = chunk.segments.iterator.map(_.mapIndex).toSeq
    MapRange(indexes.min, indexes.max + 1)
  }
}

private[remote] object RemoteRescue {
  private val PauseMs = 500L

  /** A few more looks. */
  private val DamageNs = TimeUnit.SECONDS.toNanos(2)
}
