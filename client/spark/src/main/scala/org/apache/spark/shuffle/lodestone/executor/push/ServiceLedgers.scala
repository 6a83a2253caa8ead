// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.{Ledger, Segment}

/**
 * The segments of one map attempt that each service has acknowledged. A service is incomplete if it
 * lacks segments that were sent there, or if nobody knows which it has. The attempt does not commit
 * there. Callers hold the lock of the attempt.
 */
private[push] final class ServiceLedgers(attempt: MapAttempt) {
  import ServiceLedgers.ServiceLedger

  private val ledgers = mutable.LinkedHashMap.empty[ServiceLocation, ServiceLedger]

  /** Versions and groups of which a service has segments. */
  private val used = mutable.LinkedHashSet.empty[(Int, Int)]

  /** Counts the service as one that may have segments. Called before a batch is sent there. */
  def open(service: ServiceLocation): Unit = {
    of(service)
    ()
  }

  def record(
      service: ServiceLocation,
      version: Int,
      group: Int,
      segments: Array[Segment]): Unit = if (segments.nonEmpty) {
    val ledger = of(service)
    segments.foreach { segment =>
      ledger.bytes += segment.length
      ledger.acknowledged =
        ledger.acknowledged.and(Ledger.of(attempt.mapIndex, attempt.mapId, segment))
    }
    used += ((version, group))
  }

  def markIncomplete(service: ServiceLocation): Unit = of(service).isIncomplete = true

  /** The service has committed the attempt, with the segments that it has acknowledged so far. */
  def markCommitted(service: ServiceLocation): Unit = {
    val ledger = of(service)
    ledger.committed = ledger.acknowledged
  }

  def isIncomplete(service: ServiceLocation): Boolean = of(service).isIncomplete

  def incomplete: Seq[ServiceLocation] = services.filter(isIncomplete)

  /** Services that may have segments. */
  def services: Seq[ServiceLocation] = ledgers.keys.toSeq

  def segmentsAt(service: ServiceLocation): Long = of(service).acknowledged.segments

  def isEmpty: Boolean = ledgers.values.forall(_.acknowledged.segments == 0)

  /** Services at which the attempt can commit, and the ledger of each. */
  def complete: Seq[(ServiceLocation, Ledger)] =
    services.filter(isComplete).map(service => service -> of(service).acknowledged)

  /** The complete services that have to be asked to commit. */
  def uncommitted: Seq[(ServiceLocation, Ledger)] =
    complete.filter { case (service, acknowledged) => of(service).committed != acknowledged }

  def completeBytes: Long = services.filter(isComplete).map(of(_).bytes).sum

  /** True if each group is complete at one of its services, without counting `without`. */
  def isCovered(plan: ShufflePlan, without: Option[ServiceLocation] = None): Boolean =
    used.forall { case (version, group) =>
      plan.servicesOf(version, group).exists(one => isComplete(one) && !without.contains(one))
    }

  /** Versions by which segments were pushed. */
  def versions: Seq[Int] = used.iterator.map(_._1).toSeq.distinct.sorted

  /**
   * Returns the indexes of services of a version that have nothing to read. This includes services
   * to which nothing was sent, so that no reader looks there, and takes their loss for one of data.
   */
  def servicesWithoutData(plan: ShufflePlan, version: Int): Seq[Int] =
    plan.versions(version).indices.filterNot(i => isComplete(plan.versions(version)(i)))

  def clear(): Unit = {
    ledgers.clear()
    used.clear()
  }

  private def isComplete(service: ServiceLocation): Boolean =
    ledgers.get(service).exists(one => !one.isIncomplete && one.acknowledged.segments > 0)

  private def of(service: ServiceLocation): ServiceLedger =
    ledgers.getOrElseUpdate(service, new ServiceLedger)
}

private object ServiceLedgers {
  private final class ServiceLedger {
    var acknowledged: Ledger = Ledger.Empty
    var committed: Ledger = Ledger.Empty
    var bytes = 0L
    var isIncomplete = false
  }
}
