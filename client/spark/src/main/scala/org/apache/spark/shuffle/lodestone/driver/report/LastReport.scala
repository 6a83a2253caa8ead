// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import java.util.concurrent.TimeoutException

import scala.concurrent.Await
import scala.concurrent.duration.{Duration, MILLISECONDS}

import org.apache.spark.scheduler.{
  SparkListener,
  SparkListenerApplicationEnd,
  SparkListenerInterface,
  SparkListenerJobEnd
}

/**
 * Writes what is new at the end of an application to its event log. Spark refuses events from a
 * moment after this end on, but the log is open until its listener has heard all earlier ones.
 * This listener is in the queue of the log, whose one thread calls both: it may hand events to the
 * log, and it holds the log open while it waits for the last tasks' reports.
 *
 * @param eventLog
 *   the listener that writes the log
 */
private[driver] final class LastReport(
    events: ReportEvents,
    eventLog: () => Option[SparkListenerInterface],
    nowMs: () => Long)
    extends SparkListener {
  import LastReport._

  private var lastJobMs = Long.MinValue / 2

  override def onJobEnd(event: SparkListenerJobEnd): Unit = lastJobMs = nowMs()

  override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = eventLog().foreach {
    log =>
      val waitMs = math.max(0, lastJobMs + ReportEvents.JobEndMs - nowMs())
      try {
        val last = Await.result(events.last(waitMs), Duration(waitMs + TimeoutMs, MILLISECONDS))
        last.foreach(log.onOtherEvent)
      } catch {
        // The event loop is busy, or has ended. The log has what was posted before.
        case _: TimeoutException =>
      }
  }
}

private[driver] object LastReport {

  /** The event loop answers in microseconds, after it has loaded its classes. */
  private val TimeoutMs = 2000L
}
