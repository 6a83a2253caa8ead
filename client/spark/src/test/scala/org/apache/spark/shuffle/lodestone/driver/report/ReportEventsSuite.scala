// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import java.io.IOException
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import com.fasterxml.jackson.databind.JsonNode
import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertNotNull, assertTrue}

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{LiveListenerBus, SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.scheduler.{SparkListenerEvent, SparkListenerJobEnd, JobSucceeded}
import org.apache.spark.shuffle.lodestone.driver.DriverHarness
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.ui.SparkListenerLodestoneReport

/** Users see in Spark's UI, and later in the event log, what the driver has reported. */
class ReportEventsSuite extends DriverHarness {
  private val posted = new LinkedBlockingQueue[JsonNode]()

  private def hearing(hear: SparkListenerLodestoneReport => Unit): SparkListener =
    new SparkListener {
      override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
        case report: SparkListenerLodestoneReport => hear(report)
        case _ =>
      }
    }

  private val listener = hearing(event => posted.put(event.report))

  @BeforeEach def hear(): Unit = {
    posted.clear()
    listeners.addToSharedQueue(listener)
  }

  @AfterEach def forget(): Unit = listeners.removeListener(listener)

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
    val end = new AtTheEnd
    end.report.registered(1, 2, 2)
    end.atEnd.onJobEnd(SparkListenerJobEnd(1, 2L, JobSucceeded))
    end.loop.later(20) {
      end.report.registered(2, 2, 2)
      ()
    }
    assertEquals(Seq(Seq(1, 2)), end.logged())
  }

  @Test def `the event log gets what Spark has dropped, because its listeners had ended`(): Unit = {
    val end = new AtTheEnd
    end.bus.stop()
    end.report.registered(1, 2, 2)
    end.events.onApplicationEnd(SparkListenerApplicationEnd(3L))
    assertEquals(Seq(Seq(1)), end.logged())
  }

  @Test def `the event log gets once what it has heard, and all that is lost on the way`(): Unit = {
    val end = new AtTheEnd
    def post(ids: Range): Seq[SparkListenerLodestoneReport] = {
      ids.foreach(end.report.registered(_, 2, 2))
      end.events.onApplicationEnd(SparkListenerApplicationEnd(3L))
      Seq.fill((ids.size + 199) / 200)(end.nextOfOthers())
    }
    post(0 until 3).foreach(end.atEnd.onOtherEvent)
    assertEquals(Nil, end.logged())
    val parts = post(3 until 303)
    end.atEnd.onOtherEvent(parts.head)
    assertEquals(3 until 303, end.logged().flatten)
    post(303 until 304).foreach(end.atEnd.onOtherEvent)
    assertEquals(3 until 304, end.logged().flatten)
  }

  @Test def `the times of events grow, so that readers know the last one`(): Unit = {
    val end = new AtTheEnd(clockMs = () => 5L)
    val times = (0 until 3).map { id =>
      end.report.registered(id, 2, 2)
      end.events.onApplicationEnd(SparkListenerApplicationEnd(3L))
      end.nextOfOthers().time
    }
    assertEquals(Seq(5L, 6L, 7L), times)
  }

  @Test def `an event log that is closed fails nothing`(): Unit = {
    val closed = new SparkListener {
      override def onOtherEvent(event: SparkListenerEvent): Unit = throw new IOException("closed")
    }
    val end = new AtTheEnd(eventLog = Some(closed))
    end.report.registered(1, 2, 2)
    assertEquals(Nil, end.logged())
  }

  @Test def `the wait for the last report ends long before Spark closes the event log`(): Unit = {
    val key = "spark.scheduler.listenerbus.exitTimeout"
    val mostMs = LastReport.mostMs(new SparkConf(false).set(key, "200ms"))
    val end = new AtTheEnd(mostMs = mostMs)
    val free = new CountDownLatch(1)
    end.loop.post(free.await())
    val (_, ms) = timed(end.atEnd.onApplicationEnd(SparkListenerApplicationEnd(3L)))
    free.countDown()
    assertTrue(ms < 2000, s"$ms ms")
  }

  @Test def `many shuffles are posted in parts`(): Unit = {
    val coordinator = driver(Seq(service(1)))
    (0 until 450).foreach(coordinator.registered(_, 2, 2))
    endJob()
    val parts = Seq(next(), next(), next()).map(ids)
    assertEquals(Seq(200, 200, 50), parts.map(_.size))
    assertEquals(0 until 450, parts.flatten)
  }

  private var ends = List.empty[AtTheEnd]

  @AfterEach def stopEnds(): Unit = {
    ends.foreach(_.loop.stop())
    ends = Nil
  }

  /** The end of an application, on a bus of its own. The clock of its listener stands still. */
  private final class AtTheEnd(
      eventLog: Option[SparkListener] = None,
      mostMs: Long = LastReport.mostMs(new SparkConf(false)),
      clockMs: () => Long = () => System.currentTimeMillis()) {
    val loop = new EventLoop
    val bus = new LiveListenerBus(new SparkConf(false))
    val report = new DriverReport
    val heardByOthers = new LinkedBlockingQueue[SparkListenerLodestoneReport]()
    private val written = new LinkedBlockingQueue[JsonNode]()
    private val writer = eventLog.getOrElse(hearing(event => written.put(event.report)))
    private val json = ReportJson.node("app", report, Nil, _: Seq[ShuffleRecord])

    val events = new ReportEvents(report, json, bus, loop, clockMs)
    val atEnd = new LastReport(events, () => Some(writer), mostMs, () => 0L)
    bus.addToSharedQueue(hearing(heardByOthers.put))
    bus.start(spark, spark.env.metricsSystem)
    ends ::= this

    def nextOfOthers(): SparkListenerLodestoneReport = {
      val heard = heardByOthers.poll(20, TimeUnit.SECONDS)
      assertNotNull(heard, "other listeners hear it too")
      heard
    }

    /** The ids of the shuffles in the events that the log gets at the end. */
    def logged(): Seq[Seq[Int]] = {
      written.clear()
      atEnd.onApplicationEnd(SparkListenerApplicationEnd(3L))
      Seq.fill(written.size)(ids(written.remove()))
    }
  }
}
