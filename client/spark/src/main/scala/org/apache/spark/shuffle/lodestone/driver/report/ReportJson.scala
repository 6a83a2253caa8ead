// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import org.apache.spark.shuffle.lodestone.driver.services.Service
import org.apache.spark.shuffle.lodestone.plan.{MapSample, Reason}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.Load

/** The report as JSON. Its field names are an interface: tests and tools read them. */
private[driver] object ReportJson {

  private val mapper = new ObjectMapper()

  /** @param shuffles the report lists this number of shuffles one by one, the last ones */
  def apply(
      appId: String,
      report: DriverReport,
      services: Seq[Service],
      shuffles: Int): String =
    mapper.writeValueAsString(
      node(appId, report, services, report.kept.toSeq.takeRight(shuffles)))

  /** @param shuffles the report lists these shuffles one by one */
  def node(
      appId: String,
      report: DriverReport,
      services: Seq[Service],
      shuffles: Seq[ShuffleRecord]): ObjectNode = {
    val root = mapper.createObjectNode()
    root.put("version", ServiceClient.ClientName).put("application", appId)
    addNumbers(root.putObject("totals"), report.numbers, report.totals)
    val records = root.putArray("shuffles")
    shuffles.foreach(addShuffle(records, _))
    val used = root.putArray("services")
    services.foreach(addService(used, _))
    val (sentences, remedies) = (root.putObject("sentences"), root.putObject("remedies"))
    for ((code, _) <- report.totals.reasonsInOrder; reason <- Reason.of(code)) {
      sentences.put(reason.code, reason.sentence)
      remedies.put(reason.code, reason.remedy)
    }
    root
  }

  private def addShuffle(records: ArrayNode, record: ShuffleRecord): Unit = {
    val node = records
      .addObject()
      .put("shuffleId", record.shuffleId)
      .put("generation", record.generation)
      .put("maps", record.numMaps)
      .put("partitions", record.numPartitions)
      .put("state", record.state.name)
      .put("format", record.format.name)
      .put("services", record.services)
      .put("readersWaitedMillis", record.readersWaitedMs)
      .put("registeredMillis", record.registeredMs)
      .put("decidedMillis", record.decidedMs)
      .put("changedMillis", record.changedMs)
      .put("removedMillis", record.removedMs)
    record.decision.foreach(reason => node.put("decision", reason.code))
    record.sample.foreach(addSample(node.putObject("sample"), _, record.limits))
    addNumbers(node, record.counts.numbers, record.counts)
  }

  private def addSample(
      node: ObjectNode,
      sample: MapSample,
      limits: Option[MergeLimits]): Unit = {
    node
      .put("maps", sample.maps)
      .put("blocks", sample.blocks)
      .put("bytes", sample.bytes)
      .put("diskReadMicros", sample.diskReadMicros)
    limits.foreach { limits =>
      node
        .put("leastBlocks", limits.leastBlocks)
        .put("largestMeanBytes", limits.largestMeanBytes)
    }
  }

  private def addNumbers(
      node: ObjectNode,
      numbers: Seq[(String, Long)],
      counts: ReportCounts): Unit = {
    for ((name, number) <- numbers) node.put(name, number)
    val reasons = node.putObject("reasons")
    counts.reasonsInOrder.foreach { case (code, count) => reasons.put(code, count) }
  }

  private def addService(services: ArrayNode, service: Service): Unit = {
    val node = services
      .addObject()
      .put("hostPort", service.address.toString)
      .put("incarnation", f"${service.incarnation}%016x")
      .put("state", service.state.name)
    service.load.foreach(addLoad(node.putObject("load"), _))
  }

  private def addLoad(node: ObjectNode, load: Load): Unit = {
    node
      .put("memoryUsed", load.memoryUsed)
      .put("memoryLimit", load.memoryLimit)
      .put("diskFree", load.diskFree)
      .put("diskTotal", load.diskTotal)
    ()
  }
}
