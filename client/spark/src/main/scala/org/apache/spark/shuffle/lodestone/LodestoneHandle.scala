// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleHandle}
import org.apache.spark.shuffle.lodestone.driver.TwoCopies
import org.apache.spark.shuffle.lodestone.driver.counts.CountLimits
import org.apache.spark.shuffle.lodestone.wire.Application
import org.apache.spark.shuffle.sort.{BypassMergeSortShuffleHandle, SerializedShuffleHandle}

/** A shuffle whose maps are not written by Spark alone. `inner` is Spark's own handle. */
private[spark] sealed abstract class OwnHandle[K, V, C](
    val inner: BaseShuffleHandle[K, V, C],
    val numMaps: Int)
    extends BaseShuffleHandle[K, V, C](inner.shuffleId, inner.dependency) {

  /**
   * Whether map tasks tell the driver how many records they wrote, and readers ask it. What is combined at
   * the map side nobody has counted.
   */
  def isCounted: Boolean =
    !dependency.mapSideCombine &&
      CountLimits.isKept(numMaps, dependency.partitioner.numPartitions)
}

/**
 * A shuffle that may be merged, or be remote. Spark's own handle decides how maps are written. The
 * application comes from the driver, so that all executors give the services the same name.
 */
private[spark] final class LodestoneHandle[K, V, C](
    sparks: BaseShuffleHandle[K, V, C],
    maps: Int,
    val app: Application,
    val isRemote: Boolean)
    extends OwnHandle[K, V, C](sparks, maps)

/**
 * A shuffle that is left to Spark, but for who writes its map outputs, and who compares what comes out of
 * them. No service has to do with it.
 */
private[spark] final class LocalHandle[K, V, C](sparks: BaseShuffleHandle[K, V, C], maps: Int)
    extends OwnHandle[K, V, C](sparks, maps)

/** Handles of shuffles with which Lodestone has nothing to do. */
private[lodestone] object SparkHandle {
  private val known: Set[Class[_]] = Set(
    classOf[BaseShuffleHandle[_, _, _]],
    classOf[SerializedShuffleHandle[_, _]],
    classOf[BypassMergeSortShuffleHandle[_, _]])

  /**
   * The handle, if it is one of Spark's own three. Spark's manager takes any other one for the first of
   * them, and its writer of that holds rows that their maker uses again: a wrong answer.
   */
  def checked(handle: ShuffleHandle): ShuffleHandle =
    if (known.contains(handle.getClass)) handle
    else throw new IllegalStateException(foreign(handle.getClass))

  private def foreign(found: Class[_]): String = {
    val ours = Seq(classOf[LodestoneHandle[_, _, _]], classOf[LocalHandle[_, _, _]])
    val problem =
      if (ours.exists(_.getName == found.getName)) {
        TwoCopies.Problem
      } else {
        "the shuffle was registered by something else: is this the driver's shuffle manager?"
      }
    s"$problem. The shuffle's handle is a ${found.getName} of ${TwoCopies.placeOf(found)}, the " +
      s"shuffle manager is of ${TwoCopies.placeOf(getClass)}"
  }
}
