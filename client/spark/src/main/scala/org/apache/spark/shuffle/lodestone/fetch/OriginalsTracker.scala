// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.{MapOutputTracker, MapSizesByExecutorId, SparkConf}
import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/**
 * Tells Spark's fetch iterator which originals a failed chunk stands for. Everything else that a
 * tracker knows is asked of the executor's own.
 */
private[fetch] final class OriginalsTracker(
    conf: SparkConf,
    own: MapOutputTracker,
    replaced: FetchPlan.Blocks,
    tally: ReadTally)
    extends MapOutputTracker(conf) {

  private type BlocksByAddress = Iterator[(BlockManagerId, collection.Seq[(BlockId, Long, Int)])]

  /** Why the last chunk of a partition failed; the iterator then gives up its pending chunks too. */
  private val failures = new ConcurrentHashMap[Int, Reason]()

  def chunkFailed(reduceId: Int, reason: Reason): Unit = failures.put(reduceId, reason)

  override def getMapSizesForMergeResult(shuffleId: Int, partitionId: Int): BlocksByAddress =
    fallBack(partitionId, _ => true)

  override def getMapSizesForMergeResult(
      shuffleId: Int,
      partitionId: Int,
      chunkBitmap: RoaringBitmap): BlocksByAddress =
    fallBack(partitionId, chunkBitmap.contains)

  private def fallBack(reduceId: Int, wanted: Int => Boolean): BlocksByAddress = {
    val blocks = replaced.map { case (address, list) =>
      address -> list.filter {
        case (ShuffleBlockId(_, _, partition), _, mapIndex) =>
          partition == reduceId && wanted(mapIndex)
        case _ => false
      }
    }
    val found = blocks.filter(_._2.nonEmpty)
    val count = FetchPlan.countOf(found)
    tally.originals(count)
    tally.fallback(Option(failures.get(reduceId)).getOrElse(Reason.ChunkFetchFailed), count)
    found.iterator
  }

  override def getMapSizesByExecutorId(
      shuffleId: Int,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int): BlocksByAddress =
    own.getMapSizesByExecutorId(
      shuffleId,
      startMapIndex,
      endMapIndex,
      startPartition,
      endPartition)

  override def getPushBasedShuffleMapSizesByExecutorId(
      shuffleId: Int,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int): MapSizesByExecutorId =
    own.getPushBasedShuffleMapSizesByExecutorId(
      shuffleId,
      startMapIndex,
      endMapIndex,
      startPartition,
      endPartition)

  override def getShufflePushMergerLocations(shuffleId: Int): Seq[BlockManagerId] = Nil

  /**
   * Abstract in Spark 4.3, unknown before, hence no `override`. None: an accepted chunk holds only
   * attempts that Spark accepted.
   */
  def getStaleMapIndexes(shuffleId: Int): mutable.Set[Int] = mutable.Set.empty

  override def unregisterShuffle(shuffleId: Int): Unit = ()
}
