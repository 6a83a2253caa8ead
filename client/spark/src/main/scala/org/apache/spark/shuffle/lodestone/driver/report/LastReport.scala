// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import java.io.IOException
import java.util.concurrent.TimeoutException

import scala.concurrent.Await
import scala.concurrent.duration.{Duration, MILLISECONDS}

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.scheduler.{SparkListenerEvent, SparkListenerInterface, SparkListenerJobEnd}
import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.ui.SparkListenerLodestoneReport

/**
 * Writes what is new at the end of an application to its event log. Spark refuses events from a
 * moment after this end on, but the log is open until its listener has heard all earlier ones.
 * This listener is in the queue of the log, behind it, and one thread calls both: so it knows what
 * the log has heard, may hand it events, and holds it open while it waits for the last tasks'
 * reports.
 *
 * @param eventLog
 *   the listener that writes the log
 * @param mostMs
 *   the longest wait in all
 */
private[driver] final class LastReport(
    events: ReportEvents,
    eventLog: () => Option[SparkListenerInterface],
    mostMs: Long,
    nowMs: () => Long)
    extends SparkListener with Logged {
  import LastReport._

  private var lastJobMs = Long.MinValue / 2

  override def onJobEnd(event: SparkListenerJobEnd): Unit = lastJobMs = nowMs()

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case report: SparkListenerLodestoneReport => events.logged(report)
    case _ =>
  }

  override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = eventLog().foreach {
    writer =>
      val dueMs = math.max(0, lastJobMs + ReportEvents.JobEndMs - nowMs())
      val waitMs = math.min(dueMs, mostMs / 2)
      val timeoutMs = math.min(waitMs + TimeoutMs, mostMs)
      try {
        val last = Await.result(events.last(waitMs), Duration(timeoutMs, MILLISECONDS))
        last.foreach(writer.onOtherEvent)
      } catch {
        // The event loop is busy, or has ended. The log has what was posted before.
        case _: TimeoutException =>
        // Spark has closed the log, because its queue took too long.
        case closed: IOException => log.info(LogClosed, closed)
      }
  }
}

private[driver] object LastReport {

  /** The event loop answers in microseconds, after it has loaded its classes. */
  private val TimeoutMs = 2000L
  private val LogClosed = "The event log lacks the last report: Spark had closed it"

  /** Spark 4 waits no longer for the queue of the log, if the key is set. */
  private val ExitTimeout = "spark.scheduler.listenerbus.exitTimeout"

  /** Returns the longest wait. The other half of Spark's time is for events that wait. */
  def mostMs(conf: SparkConf): Long = conf.getTimeAsMs(ExitTimeout, "0") match {
    case 0 => Long.MaxValue / 2
    case all => all / 2
  }
}
