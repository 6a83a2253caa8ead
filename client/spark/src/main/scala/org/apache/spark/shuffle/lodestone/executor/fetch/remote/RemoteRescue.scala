// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.collection.mutable
import scala.concurrent.Future

import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkCut, ChunkRescue, MergedChunk}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, RetryPolicy, RequestTimer}
import org.apache.spark.shuffle.lodestone.transport.{SameThread, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, MapRange, PartitionLayout}

/**
 * A chunk that cannot be had from one service is read from another one that has the same segments; if
 * there is none, the first one is asked again for a while.
 */
private[remote] final class RemoteRescue(
    client: ServiceClient,
    generation: ShuffleGeneration,
    plan: ShufflePlan,
    patience: RetryPolicy)
    extends ChunkRescue {
  import RemoteRescue._

  override val insists: Boolean = true

  /** When a copy of a chunk came damaged for the first time. */
  private val damagedNs = new ConcurrentHashMap[Copy, java.lang.Long]()

  override def apply(
      chunks: Seq[MergedChunk],
      cause: Throwable,
      failedNs: Long): Future[Seq[Option[MergedChunk]]] = {
    if (isDamage(cause)) {
      chunks.foreach(chunk => damagedNs.putIfAbsent(copyOf(chunk), System.nanoTime()))
    }
    if (patience.hasTime(failedNs)) {
      copiesOf(chunks).flatMap { copies =>
        val isAgain = mayPass(chunks.head.service, cause, failedNs)
        val found = copies.zip(chunks).map { case (copy, chunk) =>
          copy.orElse(Some(chunk).filter(_ => isAgain && !isDamagedForGood(chunk)))
        }
        if (found.flatten.exists(next => chunks.contains(next) || cameDamaged(next))) {
          RequestTimer.pause(PauseMs).map(_ => found)(SameThread)
        } else {
          Future.successful(found)
        }
      }(SameThread)
    } else {
      Future.successful(chunks.map(_ => None))
    }
  }

  private def cameDamaged(chunk: MergedChunk): Boolean = damagedNs.containsKey(copyOf(chunk))

  /** What was damaged on the way is whole the next time; what is damaged where it lies is not. */
  private def isDamagedForGood(chunk: MergedChunk): Boolean =
    Option(damagedNs.get(copyOf(chunk))).exists(firstNs => System.nanoTime() - firstNs >= DamageNs)

  private def copyOf(chunk: MergedChunk): Copy = {
    // Copies may have their segments in another order.
    val (mapIndex, sequence) = chunk.segments.map(one => (one.mapIndex, one.sequence)).min
    Copy(chunk.service, chunk.reduceId, mapIndex, sequence)
  }

  private def isDamage(cause: Throwable): Boolean =
    FailureClass.of(cause) == FailureClass.Corrupt

  private def mayPass(service: ServiceLocation, cause: Throwable, failedNs: Long): Boolean =
    isDamage(cause) || patience.mayRetry(service, cause, failedNs)

  /** Those that may have copies at the same services are looked for together. */
  private def copiesOf(chunks: Seq[MergedChunk]): Future[Seq[Option[MergedChunk]]] = {
    implicit val sameThread: SameThread.type = SameThread
    val failed = chunks.head.service
    val byHolders = chunks.distinct.groupBy(chunk => others(chunk.reduceId, failed))
    val found = byHolders.toSeq.map { case (holders, some) => copiesAt(some, holders) }
    Future.sequence(found).map { all =>
      val copies = all.flatten.toMap
      chunks.map(copies.get)
    }
  }

  /** One service after another, until each chunk is found: all of it at one of them. */
  private def copiesAt(
      chunks: Seq[MergedChunk],
      services: List[ServiceLocation]): Future[Map[MergedChunk, MergedChunk]] = services match {
    case service :: rest if chunks.nonEmpty =>
      val segments = chunks.map(_.segments.length).sum
      val reduceIds = chunks.map(_.reduceId).distinct.toArray
      client
        .layout(service, generation, mapsOf(chunks), reduceIds, segments)
        .map(reply => sameSegments(service, reply.partitions.toSeq, chunks))(SameThread)
        .recover { case _ => Map.empty[MergedChunk, MergedChunk] }(SameThread)
        .flatMap { found =>
          copiesAt(chunks.filterNot(found.contains), rest).map(found ++ _)(SameThread)
        }(SameThread)
    case _ => Future.successful(Map.empty)
  }

  /** A segment that has the same name, length and checksum is the same one, wherever it is. */
  private def sameSegments(
      service: ServiceLocation,
      layouts: Seq[PartitionLayout],
      chunks: Seq[MergedChunk]): Map[MergedChunk, MergedChunk] =
    layouts.flatMap { layout =>
      val places = mutable.HashMap.empty[LaidSegment, Int]
      for (run <- layout.runs; i <- run.segments.indices) {
        places.getOrElseUpdate(run.segments(i), run.first + i)
      }
      for {
        chunk <- chunks if chunk.reduceId == layout.reduceId
        copy <- copyAt(service, chunk, places) if !isDamagedForGood(copy)
      } yield chunk -> copy
    }.toMap

  private def copyAt(
      service: ServiceLocation,
      chunk: MergedChunk,
      places: collection.Map[LaidSegment, Int]): Option[MergedChunk] = {
    val found = chunk.segments.flatMap(segment => places.get(segment).map(_ -> segment))
    if (found.length == chunk.segments.length) {
      val cut = new ChunkCut(service, chunk.reduceId, Long.MaxValue)
      found.sortBy(_._1).foreach { case (place, segment) => cut.add(place, segment) }
      cut.result().headOption
    } else {
      None
    }
  }

  private def others(reduceId: Int, failed: ServiceLocation): List[ServiceLocation] =
    plan
      .servicesOf(reduceId)
      .filterNot(service => service == failed || client.isSuspect(service))
      .toList

  private def mapsOf(chunks: Seq[MergedChunk]): MapRange = {
    val indexes = chunks.flatMap(_.segments.iterator.map(_.mapIndex))
    MapRange(indexes.min, indexes.max + 1)
  }
}

private[remote] object RemoteRescue {
  private val PauseMs = 500L

  /** Some looks, where these are quick. */
  private val DamageNs = TimeUnit.SECONDS.toNanos(2)

  private final case class Copy(
      service: ServiceLocation,
      reduceId: Int,
      mapIndex: Int,
      sequence: Int)
}
