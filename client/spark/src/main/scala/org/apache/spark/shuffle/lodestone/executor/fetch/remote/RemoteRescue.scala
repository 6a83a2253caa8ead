// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.collection.mutable
import scala.concurrent.Future

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkCut, ChunkRescue, FetchChunk}
import org.apache.spark.shuffle.lodestone.executor.fetch.LayoutParts
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, RetryPolicy, RequestTimer}
import org.apache.spark.shuffle.lodestone.transport.{SameThread, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, MapRange, PartitionLayout}

/**
 * Reads a chunk that one service does not send from another one that has the same segments. If
 * there is none, the first one is asked again for a while.
 */
private[remote] final class RemoteRescue(
    client: ServiceClient,
    generation: ShuffleGeneration,
    plan: ShufflePlan,
    retryPolicy: RetryPolicy)
    extends ChunkRescue with Logged {
  import RemoteRescue._

  /** Replicas that were asked for in vain: without a pause, two of them would take turns. */
  private val askedInVain = ConcurrentHashMap.newKeySet[Replica]()

  /** When a replica came damaged or was refused for a lasting cause, for the first time. */
  private val unfitNs = new ConcurrentHashMap[Replica, java.lang.Long]()

  override def apply(
      chunks: Seq[FetchChunk],
      cause: Throwable,
      failedNs: Long): Future[Seq[Option[FetchChunk]]] = {
    val isDamage = FailureClass.of(cause) == FailureClass.Corrupt
    val isUnfit = isDamage || !FailureClass.of(cause).action.isTransient
    chunks.map(replicaOf).foreach { replica =>
      askedInVain.add(replica)
      if (isUnfit) unfitNs.putIfAbsent(replica, System.nanoTime())
    }
    if (retryPolicy.hasTime(failedNs)) {
      replicasOf(chunks, failedNs).flatMap { replicas =>
        val isAgain = isDamage || retryPolicy.mayRetry(chunks.head.service, cause, failedNs)
        val found = chunks.map { chunk =>
          replicas.get(chunk).orElse(Some(chunk).filter(_ => isAgain && !isUnfitForGood(chunk)))
        }
        if (found.flatten.exists(next => askedInVain.contains(replicaOf(next)))) {
          RequestTimer.pause(PauseMs).map(_ => found)(SameThread)
        } else {
          Future.successful(found)
        }
      }(SameThread)
    } else {
      Future.successful(chunks.map(_ => None))
    }
  }

  /** Damage on the way does not come again. Damage on a disk does, and a lasting refusal too. */
  private def isUnfitForGood(chunk: FetchChunk): Boolean =
    Option(unfitNs.get(replicaOf(chunk)))
      .exists(firstNs => System.nanoTime() - firstNs >= UnfitNs)

  /** Replicas may have their segments in another order. */
  private def replicaOf(chunk: FetchChunk): Replica =
    (chunk.service, chunk.reduceId, chunk.segments.map(one => (one.mapIndex, one.sequence)).min)

  /** Chunks that may have replicas at the same services are looked for together. */
  private def replicasOf(
      chunks: Seq[FetchChunk],
      failedNs: Long): Future[Map[FetchChunk, FetchChunk]] = {
    implicit val sameThread: SameThread.type = SameThread
    val failed = chunks.head.service
    val byServices = chunks.distinct.groupBy(chunk => others(chunk.reduceId, failed))
    val found = byServices.toSeq.map { case (services, some) =>
      replicasAt(some, services, failedNs)
    }
    Future.sequence(found).map(_.flatten.toMap)
  }

  /** One service after another, until each chunk is found: all of it at one of them. */
  private def replicasAt(
      chunks: Seq[FetchChunk],
      services: List[ServiceLocation],
      failedNs: Long): Future[Map[FetchChunk, FetchChunk]] = services match {
    case service :: rest if chunks.nonEmpty =>
      val segments = chunks.map(_.segments.length).sum
      val reduceIds = chunks.map(_.reduceId).distinct.toArray
      val parts = new LayoutParts(() => retryPolicy.hasTime(failedNs))(
        client.layout(service, generation, _, _, segments))
      parts
        .ask(mapsOf(chunks), reduceIds)
        .map(replies => sameSegments(service, LayoutParts.join(replies), chunks))(SameThread)
        .recover { case failure =>
          log.info(s"${service.hostPort} shows no replicas", failure)
          Map.empty[FetchChunk, FetchChunk]
        }(SameThread)
        .flatMap { found =>
          replicasAt(chunks.filterNot(found.contains), rest, failedNs)
            .map(found ++ _)(SameThread)
        }(SameThread)
    case _ => Future.successful(Map.empty)
  }

  /** A segment that has the same name, length and checksum is the same one, wherever it is. */
  private def sameSegments(
      service: ServiceLocation,
      layouts: Seq[PartitionLayout],
      chunks: Seq[FetchChunk]): Map[FetchChunk, FetchChunk] =
    layouts.flatMap { layout =>
      val slots = mutable.HashMap.empty[LaidSegment, Int]
      for (run <- layout.runs; i <- run.segments.indices) {
        slots.getOrElseUpdate(run.segments(i), run.first + i)
      }
      for {
        chunk <- chunks
        if chunk.reduceId == layout.reduceId && chunk.segments.forall(slots.contains)
        cut = new ChunkCut(service, chunk.reduceId, Long.MaxValue)
        _ = chunk.segments.sortBy(slots).foreach(segment => cut.add(slots(segment), segment))
        // The slots there may have more gaps, and need several chunks: then it is no replica.
        Seq(replica) <- Some(cut.result()) if !isUnfitForGood(replica)
      } yield chunk -> replica
    }.toMap

  private def others(reduceId: Int, failed: ServiceLocation): List[ServiceLocation] =
    plan
      .servicesOf(reduceId)
      .filterNot(service => service == failed || client.isSuspect(service))
      .toList

  private def mapsOf(chunks: Seq[FetchChunk]): MapRange = {
    val indexes = chunks.flatMap(_.segments.iterator.map(_.mapIndex))
    MapRange(indexes.min, indexes.max + 1)
  }
}

private[remote] object RemoteRescue {
  private val PauseMs = 500L

  /** Time for several requests, if these are quick. */
  private val UnfitNs = TimeUnit.SECONDS.toNanos(2)

  /** Where a chunk is, and the first name of its segments. */
  private type Replica = (ServiceLocation, Int, (Int, Int))
}
