// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.shuffle.lodestone.config.HostPort

/**
 * The penalty box. This JVM avoids a service that failed for some time, and longer after each
 * further failure, so that only the first task waits for it in vain. Old failures are forgotten one
 * by one. (Typhoon's rule, for addresses instead of hosts.)
 */
private[lodestone] final class ServiceHealth(nanoClock: () => Long = () => System.nanoTime()) {
  import ServiceHealth._

  private val records = new ConcurrentHashMap[HostPort, Record]()

  /** Records a failure. Requests that fail while the service is in the box count as one failure. */
  def failed(service: HostPort): Unit = {
    val nowNs = nanoClock()
    // Addresses come and go with their daemons.
    records.values.removeIf(_.levelAt(nowNs) == 0)
    records.compute(
      service,
      (_, before) => {
        val outage = Option(before).flatMap(_.outage).filterNot(_.isOver(nowNs))
        val longer = Some(outage.fold(Outage(nowNs, nowNs))(_.copy(lastNs = nowNs)))
        if (before == null) Record(1, nowNs, longer)
        else if (before.isBoxed(nowNs)) before.copy(outage = longer)
        else Record(before.levelAt(nowNs) + 1, nowNs, longer)
      })
    ()
  }

  /** Records an answer. It ends the penalty, but the next failure still costs more. */
  def answered(service: HostPort): Unit = {
    val nowNs = nanoClock()
    records.computeIfPresent(
      service,
      (_, before) => if (before.levelAt(nowNs) == 0) null else before.copy(outage = None))
    ()
  }

  /** Returns the beginning of the failures since the last answer, if requests went on. */
  def downSinceNs(service: HostPort): Option[Long] = {
    val nowNs = nanoClock()
    for (record <- Option(records.get(service)); outage <- record.outage if !outage.isOver(nowNs))
      yield outage.sinceNs
  }

  def isSuspect(service: HostPort): Boolean = {
    val record = records.get(service)
    record != null && record.isBoxed(nanoClock())
  }
}

private[lodestone] object ServiceHealth {

  /** Longer than one request's time-out, so that a dead service costs a task one wait, not many. */
  private val FirstNs = TimeUnit.SECONDS.toNanos(10)
  private val LongestNs = TimeUnit.SECONDS.toNanos(80)

  /** After this time without a failure one failure is forgotten. */
  private val DecayNs = TimeUnit.SECONDS.toNanos(60)

  /** An outage without requests for this time says nothing about the service any more. */
  private val SilenceNs = TimeUnit.SECONDS.toNanos(10)

  private final case class Outage(sinceNs: Long, lastNs: Long) {
    def isOver(nowNs: Long): Boolean = nowNs - lastNs > SilenceNs
  }

  /**
   * The failures of a service. `level` is the number that was not forgotten at the last one that
   * counted. `outage` is None if the service has answered since.
   */
  private final case class Record(level: Int, failedAtNs: Long, outage: Option[Outage]) {
    def isBoxed(nowNs: Long): Boolean = outage.isDefined && nowNs - failedAtNs < boxNs

    private def boxNs: Long = math.min(FirstNs << math.min(level - 1, 10), LongestNs)

    def levelAt(nowNs: Long): Int =
      math.max(0L, level - (nowNs - failedAtNs) / DecayNs).toInt
  }
}
