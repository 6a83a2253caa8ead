// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.shuffle.lodestone.HostPort

/**
 * The penalty box: a service that failed is left alone for a while, and longer each time that it
 * fails again, so that no task after the first waits for it in vain. What it did long ago is
 * forgotten step by step. (Typhoon's rule, for addresses instead of hosts.)
 */
private[lodestone] final class ServiceHealth(nanoClock: () => Long = () => System.nanoTime()) {
  import ServiceHealth._

  private val records = new ConcurrentHashMap[HostPort, Record]()

  /** Requests that fail while it is in the box were sent before: they count as one failure. */
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

  /** It is well, but what it did is not forgotten: the next failure costs it more. */
  def answered(service: HostPort): Unit = {
    val nowNs = nanoClock()
    records.computeIfPresent(
      service,
      (_, before) => if (before.levelAt(nowNs) == 0) null else before.copy(outage = None))
    ()
  }

  /** Since when it has done nothing but fail, if it was asked all the time. */
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

  /** After this long without a failure one of them is forgotten. */
  private val DecayNs = TimeUnit.SECONDS.toNanos(60)

  /** After this long in which nobody asked, what was known of an outage says nothing any more. */
  private val SilenceNs = TimeUnit.SECONDS.toNanos(10)

  /** Failures of a service without an answer between them. */
  private final case class Outage(sinceNs: Long, lastNs: Long) {
    def isOver(nowNs: Long): Boolean = nowNs - lastNs > SilenceNs
  }

  /**
   * The failures of a service, `level` of them not forgotten when the last one counted. None: it has
   * answered since.
   */
  private final case class Record(level: Int, failedAtNs: Long, outage: Option[Outage]) {
    def isBoxed(nowNs: Long): Boolean = outage.isDefined && nowNs - failedAtNs < boxNs

    private def boxNs: Long = math.min(FirstNs << math.min(level - 1, 10), LongestNs)

    def levelAt(nowNs: Long): Int =
      math.max(0L, level - (nowNs - failedAtNs) / DecayNs).toInt
  }
}
