// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.collection.mutable

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.{MapOutputTracker, MapSizesByExecutorId, SparkConf}
import org.apache.spark.storage.BlockManagerId

/**
 * Answers Spark's fetch iterator which blocks to read instead of a chunk that failed. The
 * executor's own tracker answers all other questions.
 */
private[fetch] final class OriginalsTracker(
    conf: SparkConf,
    own: MapOutputTracker,
    inPlaceOf: (Int, Int => Boolean) => ReadSources.BlocksByAddress)
    extends MapOutputTracker(conf) {

  override def getMapSizesForMergeResult(
      shuffleId: Int,
      partitionId: Int): Iterator[(BlockManagerId, ReadSources.BlockList)] =
    inPlaceOf(partitionId, _ => true).iterator

  override def getMapSizesForMergeResult(
      shuffleId: Int,
      partitionId: Int,
      chunkBitmap: RoaringBitmap): Iterator[(BlockManagerId, ReadSources.BlockList)] =
    inPlaceOf(partitionId, chunkBitmap.contains).iterator

  override def getMapSizesByExecutorId(
      shuffleId: Int,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int): Iterator[(BlockManagerId, ReadSources.BlockList)] =
    own.getMapSizesByExecutorId(shuffleId, startMapIndex, endMapIndex, startPartition, endPartition)

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

  /** Abstract in Spark 4.3, unknown before: no `override`. Chunks have accepted attempts only. */
  def getStaleMapIndexes(shuffleId: Int): mutable.Set[Int] = mutable.Set.empty

  override def unregisterShuffle(shuffleId: Int): Unit = ()
}
