// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import scala.concurrent.{Future, Promise}

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

  /** What the event log has of the events that were posted. */
  private val log = new HeardReports
  private var posted = 0L

  /** Readers take the event with the last time, so the time of events only grows. */
  private var lastTime = 0L

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

  /** Is called by the thread that writes the event log, after it has written the event. */
  def logged(event: SparkListenerLodestoneReport): Unit = log.heard(event.time)

  /** Makes, after a time, events with all that the event log has not heard. */
  def last(afterMs: Long): Future[Seq[SparkListenerLodestoneReport]] = {
    val made = Promise[Seq[SparkListenerLodestoneReport]]()
    loop.post(loop.later(afterMs)(made.success(since(log.changes))))
    made.future
  }

  private def post(): Unit = {
    nextMs = Never
    val events = since(posted)
    posted = report.changes
    events.headOption.foreach(first => log.posted(first.time, events.size, posted))
    events.foreach(bus.post)
  }

  private def since(changes: Long): Seq[SparkListenerLodestoneReport] =
    if (report.changes == changes) {
      Nil
    } else {
      lastTime = math.max(clockMs(), lastTime + 1)
      val records = report.changedSince(changes)
      val parts = if (records.isEmpty) Iterator(records) else records.grouped(MaxShuffles)
      parts.map(part => SparkListenerLodestoneReport(lastTime, content(part))).toList
    }
}

private[driver] object ReportEvents {
  private val IntervalMs = 5000L

  /** The UI shows nothing before the first event, which also loads classes. */
  private val FirstMs = 1000L

  /** Reports of tasks arrive within this time after the end of their job. */
  val JobEndMs = 300L
  private val Never = Long.MaxValue

  /** The longest event has some hundred KB. */
  private val MaxShuffles = 200
}
