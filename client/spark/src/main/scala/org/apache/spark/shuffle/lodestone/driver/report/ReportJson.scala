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
      shuffles: Int): String = {
    val root = mapper.createObjectNode()
    root.put("version", ServiceClient.ClientName).put("application", appId)
    addTotals(root.putObject("totals"), report)
    val records = root.putArray("shuffles")
    report.kept.toSeq.takeRight(shuffles).foreach(addShuffle(records, _))
    val used = root.putArray("services")
    services.foreach(addService(used, _))
    val sentences = root.putObject("sentences")
    for ((code, _) <- report.totals.reasonsInOrder; reason <- Reason.of(code)) {
      sentences.put(reason.code, reason.sentence)
    }
    mapper.writeValueAsString(root)
  }

  private def addTotals(node: ObjectNode, report: DriverReport): Unit = {
    node
      .put("shuffles", report.shuffles)
      .put("merged", report.merged)
      .put("plain", report.plain)
      .put("remote", report.remote)
      .put("readersWaitedMillis", report.readersWaitedMs)
    addCounts(node, report.totals)
  }

  private def addShuffle(records: ArrayNode, record: ShuffleRecord): Unit = {
    val node = records
      .addObject()
      .put("shuffleId", record.shuffleId)
      .put("generation", record.generation)
      .put("maps", record.numMaps)
      .put("partitions", record.numPartitions)
      .put("state", record.state.name)
      .put("services", record.services)
      .put("readersWaitedMillis", record.readersWaitedMs)
    record.sample.foreach(addSample(node.putObject("sample"), _, record.limits))
    addCounts(node, record.counts)
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

  private def addCounts(node: ObjectNode, counts: ReportCounts): Unit = {
    node
      .put("blocksPushed", counts.blocksPushed)
      .put("bytesPushed", counts.bytesPushed)
      .put("pushRequests", counts.pushRequests)
      .put("chunksRead", counts.chunksRead)
      .put("chunkBytes", counts.chunkBytes)
      .put("localChunkBytes", counts.localChunkBytes)
      .put("mergedBlocksRead", counts.mergedBlocksRead)
      .put("originalsRead", counts.originalsRead)
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

  /** The load that the service reported last. */
  private def addLoad(node: ObjectNode, load: Load): Unit = {
    node
      .put("memoryUsed", load.memoryUsed)
      .put("memoryLimit", load.memoryLimit)
      .put("diskFree", load.diskFree)
      .put("diskTotal", load.diskTotal)
    ()
  }
}
