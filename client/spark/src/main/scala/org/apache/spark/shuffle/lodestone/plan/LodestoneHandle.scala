// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleHandle}
import org.apache.spark.shuffle.lodestone.plan.counts.CountLimits
import org.apache.spark.shuffle.lodestone.wire.Application
import org.apache.spark.shuffle.sort.{BypassMergeSortShuffleHandle, SerializedShuffleHandle}

/** A shuffle whose map outputs Lodestone may write or read. `inner` is Spark's own handle. */
private[spark] sealed abstract class OwnHandle[K, V, C](
    val inner: BaseShuffleHandle[K, V, C],
    val numMaps: Int,
    val format: BlockFormat)
    extends BaseShuffleHandle[K, V, C](inner.shuffleId, inner.dependency) {

  /**
   * True if map tasks report their numbers of records to the driver, and readers ask for them.
   * Nothing counts records that are combined at the map side.
   */
  def isCounted: Boolean =
    !dependency.mapSideCombine &&
      CountLimits.isKept(numMaps, dependency.partitioner.numPartitions, format.numberBytes)
}

/**
 * A shuffle that may be merged, or is remote. Spark's own handle decides how map outputs are
 * written. The driver sets the application, so that all executors use one name at the services.
 */
private[spark] final class LodestoneHandle[K, V, C](
    sparks: BaseShuffleHandle[K, V, C],
    maps: Int,
    val app: Application,
    val isRemote: Boolean,
    blocks: BlockFormat = BlockFormat.SparkStream)
    extends OwnHandle[K, V, C](sparks, maps, blocks)

/**
 * A shuffle that is left to Spark, except that Lodestone writes its map outputs and compares their
 * numbers of records. It uses no service.
 */
private[spark] final class LocalHandle[K, V, C](
    sparks: BaseShuffleHandle[K, V, C],
    maps: Int,
    blocks: BlockFormat = BlockFormat.SparkStream)
    extends OwnHandle[K, V, C](sparks, maps, blocks)

/**
 * The handles with which the inner manager writes and reads, which is Spark's or that of an engine.
 *
 * @param engines
 *   the classes of handles that only the engine has
 * @param frames
 *   the format of the engine's blocks
 */
private[lodestone] final class InnerHandles(
    engines: Set[Class[_]],
    frames: Option[BlockFormat.EngineFrames]) {
  import InnerHandles._

  /** Returns the inner handle of a shuffle. Spark and an engine know their own formats only. */
  def of[K, V, C](handle: OwnHandle[K, V, C]): BaseShuffleHandle[K, V, C] =
    if (handle.format == BlockFormat.SparkStream || frames.contains(handle.format)) handle.inner
    else {
      throw new IllegalStateException(
        s"this shuffle manager neither writes nor reads ${handle.format.name}, the format of " +
          s"shuffle ${handle.shuffleId}")
    }

  /**
   * Returns the handle, if it is one of Spark's own three, or of the engine. Spark's manager treats
   * any other handle as the first of them. The writer for that one keeps references to rows, but
   * SQL operators reuse their row objects, so the answer would be wrong.
   */
  def checked(handle: ShuffleHandle): ShuffleHandle =
    if (Sparks.contains(handle.getClass) || engines.contains(handle.getClass)) handle
    else throw new IllegalStateException(foreign(handle.getClass))
}

private object InnerHandles {
  private val Sparks: Set[Class[_]] = Set(
    classOf[BaseShuffleHandle[_, _, _]],
    classOf[SerializedShuffleHandle[_, _]],
    classOf[BypassMergeSortShuffleHandle[_, _]])

  private def foreign(found: Class[_]): String = {
    val ours = Seq(classOf[LodestoneHandle[_, _, _]], classOf[LocalHandle[_, _, _]])
    val problem =
      if (ours.exists(_.getName == found.getName)) {
        TwoCopies.Problem
      } else {
        "another shuffle manager registered the shuffle: is this the driver's shuffle manager?"
      }
    s"$problem. The handle of the shuffle is a ${found.getName} of ${TwoCopies.jarOf(found)}, " +
      s"the shuffle manager is of ${TwoCopies.jarOf(getClass)}"
  }
}
