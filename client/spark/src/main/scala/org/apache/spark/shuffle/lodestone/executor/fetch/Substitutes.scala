// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation}
import org.apache.spark.storage.ShuffleBlockId

/** What is read in the place of a chunk that could not be fetched. */
private[fetch] trait Substitutes {

  /** Before the iterator hears of it. On a network thread. */
  def chunkFailed(
      reduceId: Int,
      service: ServiceLocation,
      reason: Reason,
      cause: Throwable): Unit

  /** The blocks of these maps. On the task's thread. */
  def apply(reduceId: Int, maps: Int => Boolean): FetchPlan.Blocks
}

/** The blocks that executors have kept. */
private[fetch] final class Originals(
    merged: Seq[MergedPartition],
    replaced: FetchPlan.Blocks,
    tally: ReadTally)
    extends Substitutes {

  /** What else is in the only portion under the name of the first partition. */
  private val together =
    merged.collect { case one if one.reduceIds.size > 1 => one.reduceId -> one.reduceIds }.toMap

  /** Why the last chunk of a partition failed; the iterator then gives up its pending chunks too. */
  private val failures = new ConcurrentHashMap[Int, Reason]()

  override def chunkFailed(
      reduceId: Int,
      service: ServiceLocation,
      reason: Reason,
      cause: Throwable): Unit = {
    failures.put(reduceId, reason)
    ()
  }

  override def apply(reduceId: Int, maps: Int => Boolean): FetchPlan.Blocks = {
    val blocks = replaced.map { case (address, list) =>
      address -> list.filter {
        case (ShuffleBlockId(_, _, partition), _, mapIndex) =>
          together.get(reduceId).fold(partition == reduceId && maps(mapIndex))(_(partition))
        case _ => false
      }
    }
    val found = blocks.filter(_._2.nonEmpty)
    val count = FetchPlan.countOf(found)
    tally.originals(count)
    tally.fallback(Option(failures.get(reduceId)).getOrElse(Reason.ChunkFetchFailed), count)
    found
  }
}
