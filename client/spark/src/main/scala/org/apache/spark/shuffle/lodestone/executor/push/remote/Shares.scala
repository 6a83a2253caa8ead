// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.{Ledger, Segment}

/** What of one map attempt is at which service. Not for several threads at once. */
private[remote] final class Shares(attempt: MapAttempt) {
  import Shares.Share

  private val shares = mutable.LinkedHashMap.empty[ServiceLocation, Share]

  /** Groups, by version, of which something is at a service. */
  private val used = mutable.LinkedHashSet.empty[(Int, Int)]

  /** Something is about to be sent there. */
  def touch(location: ServiceLocation): Unit = {
    of(location)
    ()
  }

  def isSpoiled(location: ServiceLocation): Boolean = of(location).isSpoiled

  def add(
      location: ServiceLocation,
      version: Int,
      group: Int,
      segments: Array[Segment]): Unit = if (segments.nonEmpty) {
    val share = of(location)
    segments.foreach { segment =>
      share.ledger = share.ledger.and(Ledger.of(attempt.mapIndex, attempt.mapId, segment))
    }
    used += ((version, group))
  }

  /** Not all that was sent there is there. */
  def spoil(location: ServiceLocation): Unit = of(location).isSpoiled = true

  def hasAny(location: ServiceLocation): Boolean = of(location).ledger.segments > 0

  def isEmpty: Boolean = shares.values.forall(_.ledger.segments == 0)

  def clear(): Unit = {
    shares.clear()
    used.clear()
  }

  def all: Seq[ServiceLocation] = shares.keys.toSeq

  /** Those that have all that was sent there, and what that is. */
  def whole: Seq[(ServiceLocation, Ledger)] = shares.toSeq.collect {
    case (location, share) if share.isWhole => location -> share.ledger
  }

  def spoiled: Seq[ServiceLocation] = shares.toSeq.collect {
    case (location, share) if share.isSpoiled => location
  }

  /** Each group is whole at one of its services, one of them left aside. */
  def isCovered(plan: ShufflePlan, without: Option[ServiceLocation] = None): Boolean =
    used.forall { case (version, group) =>
      plan.servicesOf(version, group).exists(one => isWhole(one) && !without.contains(one))
    }

  /** Versions by which something was pushed. */
  def versions: Seq[Int] = used.iterator.map(_._1).toSeq.distinct.sorted

  /**
   * Which services of a version have nothing that may be read: also those to which nothing was sent, so
   * that nobody looks there for something, and misses it should they be gone.
   */
  def without(plan: ShufflePlan, version: Int): Seq[Int] =
    plan.versions(version).indices.filterNot(i => isWhole(plan.versions(version)(i)))

  private def isWhole(location: ServiceLocation): Boolean =
    shares.get(location).exists(_.isWhole)

  private def of(location: ServiceLocation): Share = shares.getOrElseUpdate(location, new Share)
}

private object Shares {
  private final class Share {
    var ledger: Ledger = Ledger.Empty
    var isSpoiled = false

    def isWhole: Boolean = !isSpoiled && ledger.segments > 0
  }
}
