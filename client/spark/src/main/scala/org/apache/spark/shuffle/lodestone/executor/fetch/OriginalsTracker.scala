// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.{MapOutputTracker, MapSizesByExecutorId, SparkConf}
import org.apache.spark.storage.BlockManagerId

/**
 * Tells Spark's fetch iterator what to read in the place of a chunk that failed. Everything else that a
 * tracker knows is asked of the executor's own.
 */
private[fetch] final class OriginalsTracker(
    conf: SparkConf,
    own: MapOutputTracker,
    inPlaceOf: (Int, Int => Boolean) => FetchPlan.Blocks)
    extends MapOutputTracker(conf) {

  override def getMapSizesForMergeResult(
      shuffleId: Int,
      partitionId: Int): Iterator[(BlockManagerId, FetchPlan.BlockList)] =
    inPlaceOf(partitionId, _ => true).iterator

  override def getMapSizesForMergeResult(
      shuffleId: Int,
      partitionId: Int,
      chunkBitmap: RoaringBitmap): Iterator[(BlockManagerId, FetchPlan.BlockList)] =
    inPlaceOf(partitionId, chunkBitmap.contains).iterator

  override def getMapSizesByExecutorId(
      shuffleId: Int,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int): Iterator[(BlockManagerId, FetchPlan.BlockList)] =
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
