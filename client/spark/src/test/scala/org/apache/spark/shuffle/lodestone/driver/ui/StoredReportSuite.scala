// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.TextNode
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.util.JsonProtocol
import org.apache.spark.util.kvstore.InMemoryStore

/** Spark's UI shows each shuffle as its last event has it, from any event log. */
class StoredReportSuite {
  private val store = new InMemoryStore
  private val listener = new ReportListener(store)
  private val stored = new StoredReport(store)

  private def json(text: String): JsonNode = new ObjectMapper().readTree(text)

  private def event(shuffles: String, sums: String = "{}", at: Long = 7L): SparkListenerEvent =
    SparkListenerLodestoneReport(at, json(s"""{"totals":$sums,"shuffles":[$shuffles]}"""))

  private def shuffle(id: Int, state: String): String = s"""{"shuffleId":$id,"state":"$state"}"""

  private def page(all: Boolean = false): String =
    new ReportContent(stored).all(name => if (all && name == "all") "true" else null).mkString

  @Test def `the last event of a shuffle counts, and the newest shuffle comes first`(): Unit = {
    listener.onOtherEvent(event(shuffle(1, "registered") + "," + shuffle(2, "plain")))
    listener.onOtherEvent(event(shuffle(1, "merged"), """{"shuffles":2}"""))
    assertEquals(
      Seq(json(shuffle(2, "plain")), json(shuffle(1, "merged"))),
      stored.shuffles)
    assertEquals(Some((7L, json("""{"totals":{"shuffles":2}}"""))), stored.totals)
  }

  @Test def `an event that is older than the last one adds only what that does not say`(): Unit = {
    listener.onOtherEvent(event(shuffle(1, "merged"), """{"shuffles":2}""", at = 9))
    val older = shuffle(1, "registered") + "," + shuffle(2, "plain")
    listener.onOtherEvent(event(older, """{"shuffles":1}""", at = 8))
    assertEquals(Seq(json(shuffle(2, "plain")), json(shuffle(1, "merged"))), stored.shuffles)
    assertEquals(Some((9L, json("""{"totals":{"shuffles":2}}"""))), stored.totals)
  }

  @Test def `an event comes back from an event log as it was`(): Unit = {
    val written = event(shuffle(1, "merged"), """{"shuffles":5000000000}""")
    val line = JsonProtocol.sparkEventToJsonString(written)
    assertEquals(written, JsonProtocol.sparkEventFromJson(line))
    assertTrue(line.contains(s""""Event":"${classOf[SparkListenerLodestoneReport].getName}""""))
  }

  @Test def `an application with very many shuffles keeps the last ones`(): Unit = {
    val ids = 0 until StoredReport.MaxKept + 7
    ids.grouped(200).foreach { part =>
      listener.onOtherEvent(event(part.map(shuffle(_, "merged")).mkString(",")))
    }
    val kept = stored.shuffles.map(_.get("shuffleId").asInt)
    assertEquals(ids.drop(7).reverse, kept)
  }

  @Test def `a page shows the last shuffles, and all that are kept if it is asked`(): Unit = {
    val ids = 0 until 250
    listener.onOtherEvent(event(
      ids.map(shuffle(_, "merged")).mkString(","),
      """{"shuffles":250}"""))
    assertTrue(page().contains("The last 200 of 250 shuffles"))
    assertEquals(201, page().split("<td>merged</td>", -1).length)
    assertEquals(251, page(all = true).split("<td>merged</td>", -1).length)
  }

  @Test def `an event log that was damaged or made by hand breaks no page`(): Unit = {
    assertTrue(page().contains("No shuffle has been registered yet."))
    listener.onOtherEvent(SparkListenerLodestoneReport(1L, new TextNode("no report")))
    listener.onOtherEvent(SparkListenerLodestoneReport(1L, null))
    assertTrue(stored.isEmpty)
    listener.onOtherEvent(event("""{"shuffleId":"x","state":7,"reasons":[1],"services":{}}"""))
    listener.onOtherEvent(SparkListenerLodestoneReport(1L, json("""{"shuffles":{"a":1}}""")))
    listener.onOtherEvent(event("""3,null,{"state":"<script>alert(1)</script>"}"""))
    assertFalse(page().contains("<script>"))
    assertTrue(page().contains("&lt;script&gt;"))
  }
}
