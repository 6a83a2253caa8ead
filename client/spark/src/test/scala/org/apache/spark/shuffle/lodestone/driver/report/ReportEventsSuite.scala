// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import com.fasterxml.jackson.databind.JsonNode
import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertNotNull, assertTrue}

import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.scheduler.{SparkListenerEvent, SparkListenerJobEnd, JobSucceeded}
import org.apache.spark.shuffle.lodestone.driver.DriverHarness
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.ui.SparkListenerLodestoneReport

/** Users see in Spark's UI, and later in the event log, what the driver has reported. */
class ReportEventsSuite extends DriverHarness {
  private val posted = new LinkedBlockingQueue[JsonNode]()

  private val hearing = new SparkListener {
    override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
      case SparkListenerLodestoneReport(_, report) => posted.put(report)
      case _ =>
    }
  }

  @BeforeEach def hear(): Unit = {
    posted.clear()
    listeners.addToSharedQueue(hearing)
  }

  @AfterEach def forget(): Unit = listeners.removeListener(hearing)

  private def next(): JsonNode = {
    val report = posted.poll(20, TimeUnit.SECONDS)
    assertNotNull(report, "no event was posted")
    report
  }

  private def ids(report: JsonNode): Seq[Int] = {
    val shuffles = report.get("shuffles")
    (0 until shuffles.size).map(shuffles.get(_).get("shuffleId").asInt)
  }

  private def endJob(): Unit = listeners.post(SparkListenerJobEnd(1, 2L, JobSucceeded))

  @Test def `an event has the shuffles that changed since the one before, and all sums`(): Unit = {
    val coordinator = driver(Seq(service(1)))
    coordinator.registered(1, 2, 2)
    coordinator.registered(2, 2, 2)
    endJob()
    assertEquals(Seq(1, 2), ids(next()))
    coordinator.registered(3, 2, 2)
    endJob()
    val second = next()
    assertEquals(Seq(3), ids(second))
    assertEquals(3, second.at("/totals/shuffles").asInt)
  }

  @Test def `an application that runs one long job posts before the job ends`(): Unit = {
    driver(Seq(service(1))).registered(1, 2, 2)
    assertEquals(Seq(1), ids(next()))
  }

  @Test def `what is new at the end of the application is posted, and nothing twice`(): Unit = {
    val coordinator = driver(Seq(service(1)))
    coordinator.registered(1, 2, 2)
    listeners.post(SparkListenerApplicationEnd(3L))
    assertEquals(Seq(1), ids(next()))
    listeners.post(SparkListenerApplicationEnd(4L))
    coordinator.registered(2, 2, 2)
    endJob()
    assertEquals(Seq(2), ids(next()))
  }

  @Test def `the event log gets what tasks report a moment after the application ends`(): Unit = {
    val loop = new EventLoop
    try {
      val report = new DriverReport
      val events = new ReportEvents(
        report,
        records => ReportJson.node("app", report, Nil, records),
        listeners,
        loop,
        isLogged = true)
      val atEnd = new LastReport(events, () => Some(hearing), () => loop.nowMs)
      report.registered(1, 2, 2)
      atEnd.onJobEnd(SparkListenerJobEnd(1, 2L, JobSucceeded))
      events.onJobEnd(SparkListenerJobEnd(1, 2L, JobSucceeded))
      loop.later(20) {
        report.registered(2, 2, 2)
        ()
      }
      events.onApplicationEnd(SparkListenerApplicationEnd(3L))
      atEnd.onApplicationEnd(SparkListenerApplicationEnd(3L))
      assertEquals(Seq(1, 2), ids(posted.remove()))
      assertTrue(posted.isEmpty)
    } finally loop.stop()
  }

  @Test def `many shuffles are posted in parts`(): Unit = {
    val coordinator = driver(Seq(service(1)))
    (0 until 450).foreach(coordinator.registered(_, 2, 2))
    endJob()
    val parts = Seq(next(), next(), next()).map(ids)
    assertEquals(Seq(200, 200, 50), parts.map(_.size))
    assertEquals(0 until 450, parts.flatten)
  }
}
