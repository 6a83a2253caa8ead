// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.shuffle.lodestone.driver.{DriverHarness, ScriptedService}
import org.apache.spark.shuffle.lodestone.driver.ScriptedService.Silence
import org.apache.spark.shuffle.lodestone.plan.{Reason, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.wire.{EndApplication, ReportApplication}

@Tag("seldom")
class ReportSenderSuite extends DriverHarness {
  private val id = ShuffleGeneration(5, 0)

  private def json(report: String): JsonNode = new ObjectMapper().readTree(report)

  private def lastOf(service: ScriptedService): ReportApplication = {
    var found = service.next(classOf[ReportApplication])
    while (!found.ended) found = service.next(classOf[ReportApplication])
    found
  }

  @Test def `the last report has each shuffle and explains each reason`(): Unit = {
    val one = service(1)
    val coordinator = driver(Seq(one))
    coordinator.registered(5, 1, 20)
    coordinator.leftToSpark(6, 1, 1, Reason.SingleMap)
    planOf(id)
    pushed(id, 0, blocks = 42)
    placesOf(id)
    coordinator.stop()
    val report = json(lastOf(one).report)
    assertEquals(42L, report.get("totals").get("blocksPushed").asLong)
    assertEquals(2, report.get("shuffles").size)
    assertEquals(Reason.SingleMap.sentence, report.get("sentences").get("SINGLE_MAP").asText)
    assertTrue(report.get("version").asText.contains("spark/"))
  }

  @Test def `a report comes while the application runs, whenever something has changed`(): Unit = {
    val one = service(1)
    driver(Seq(one)).registered(5, 2, 20)
    planOf(id)
    assertFalse(one.next(classOf[ReportApplication]).ended)
    pushed(id, 0, blocks = 7)
    val next = one.next(classOf[ReportApplication])
    assertEquals(7L, json(next.report).get("totals").get("blocksPushed").asLong)
  }

  @Test def `three of many services get the report`(): Unit = {
    val many = (1 to 5).map(life => service(life.toLong))
    val coordinator = driver(many)
    coordinator.registered(5, 2, 40)
    assertEquals(5, planOf(id).services.length)
    coordinator.stop()
    many.foreach(_.next(classOf[EndApplication]))
    val reports = many.map(_.seen(classOf[ReportApplication])).filter(_ > 0)
    assertEquals(3, reports.size)
  }

  @Test def `a service that ignores reports still gets the end of the application`(): Unit = {
    val silent = scripted(1) { case _: ReportApplication => Silence }
    val coordinator = driver(Seq(silent))
    coordinator.registered(5, 2, 20)
    planOf(id)
    coordinator.stop()
    silent.next(classOf[EndApplication])
  }

  @Test def `a long list of shuffles is cut to the last ones`(): Unit = {
    val one = service(1)
    val coordinator = driver(Seq(one))
    (0 until 300).foreach(coordinator.registered(_, 2, 20))
    planOf(id)
    coordinator.stop()
    val report = json(lastOf(one).report)
    assertEquals(300L, report.get("totals").get("shuffles").asLong)
    assertEquals(200, report.get("shuffles").size)
    assertEquals(299L, report.get("shuffles").get(199).get("shuffleId").asLong)
  }
}
