// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.scheduler.{
  LiveListenerBus,
  SparkListener,
  SparkListenerApplicationEnd,
  SparkListenerJobEnd
}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.ui.SparkListenerLodestoneReport

/**
 * Posts what has changed in the report to Spark's listeners, so that the tab in Spark's UI and the
 * event log have it. At most once in some seconds while jobs run, and soon after the end of a job.
 *
 * @param content
 *   the report with these shuffles
 */
private[driver] final class ReportEvents(
    report: DriverReport,
    content: Seq[ShuffleRecord] => JsonNode,
    bus: LiveListenerBus,
    loop: EventLoop,
    clockMs: () => Long = () => System.currentTimeMillis())
    extends SparkListener {
  import ReportEvents._

  private var posted = 0L

  /** When the next event is due, on the clock of the loop. */
  private var nextMs = Never

  /** An event is due because a job has ended. */
  private var isJobEnding = false

  /** Is called by the event loop, after a change. */
  def changed(): Unit = if (nextMs == Never) {
    val afterMs = if (posted == 0) FirstMs else IntervalMs
    nextMs = loop.nowMs + afterMs
    val due = nextMs
    loop.later(afterMs)(if (nextMs == due) post())
  }

  /** Tasks report a moment after they have ended. */
  override def onJobEnd(event: SparkListenerJobEnd): Unit = loop.post {
    if (!isJobEnding) {
      isJobEnding = true
      loop.later(JobEndMs) {
        isJobEnding = false
        post()
      }
    }
  }

  /** Spark stops its listeners some time after this event, and drops what comes after that. */
  override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = loop.post(post())

  private def post(): Unit = {
    nextMs = Never
    val now = report.changes
    if (now != posted) {
      val records = report.changedSince(posted)
      val parts = if (records.isEmpty) Iterator(records) else records.grouped(MaxShuffles)
      parts.foreach { part =>
        bus.post(SparkListenerLodestoneReport(clockMs(), content(part)))
      }
      posted = now
    }
  }
}

private[driver] object ReportEvents {
  private val IntervalMs = 5000L

  /**
   * The first event loads classes, which takes longer than Spark needs to stop the listeners of a
   * short application: later ones are quick.
   */
  private val FirstMs = 1000L
  private val JobEndMs = 300L
  private val Never = Long.MaxValue

  /** The longest event has some hundred KB. */
  private val MaxShuffles = 200
}
