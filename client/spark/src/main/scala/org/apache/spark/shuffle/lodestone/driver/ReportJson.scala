// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.services.Service
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.Load

/** The report as JSON. Its field names are an interface: tests and tools read them. */
private[driver] object ReportJson {

  /** @param shuffles so many of them are told one by one: the last */
  def apply(
      appId: String,
      report: DriverReport,
      services: Seq[Service],
      shuffles: Int): String = {
    val kept = report.kept.toSeq.takeRight(shuffles)
    val codes = report.totals.reasonsInOrder.map(_._1)
    val sentences = codes.flatMap(Reason.of).map(reason => reason.code -> text(reason.sentence))
    val totals = obj(
      Seq(
        "shuffles" -> report.shuffles.toString,
        "merged" -> report.merged.toString,
        "plain" -> report.plain.toString,
        "remote" -> report.remote.toString,
        "readersWaitedMillis" -> report.readersWaitedMs.toString) ++ counts(report.totals))
    obj(
      Seq(
        "version" -> text(ServiceClient.ClientName),
        "application" -> text(appId),
        "totals" -> totals,
        "shuffles" -> array(kept.map(shuffle)),
        "services" -> array(services.map(service)),
        "sentences" -> obj(sentences)))
  }

  private def shuffle(record: ShuffleRecord): String = obj(
    Seq(
      "shuffleId" -> record.shuffleId.toString,
      "mergeId" -> record.mergeId.toString,
      "maps" -> record.numMaps.toString,
      "partitions" -> record.numPartitions.toString,
      "state" -> text(record.state.name),
      "services" -> record.services.toString,
      "finalizeMillis" -> record.finalizeMs.toString,
      "readersWaitedMillis" -> record.readersWaitedMs.toString) ++
      record.sample.map("sample" -> sample(_, record.limits)) ++ counts(record.counts))

  private def sample(sample: MapSample, limits: Option[MergeChoice.Limits]): String = obj(
    Seq(
      "maps" -> sample.maps.toString,
      "blocks" -> sample.blocks.toString,
      "bytes" -> sample.bytes.toString,
      "diskReadMicros" -> sample.diskReadMicros.toString) ++
      limits.toSeq.flatMap { limits =>
        Seq(
          "leastBlocks" -> limits.leastBlocks.toString,
          "largestMeanBytes" -> limits.largestMeanBytes.toString)
      })

  private def counts(counts: ReportCounts): Seq[(String, String)] = Seq(
    "blocksPushed" -> counts.blocksPushed.toString,
    "bytesPushed" -> counts.bytesPushed.toString,
    "pushRequests" -> counts.pushRequests.toString,
    "chunksRead" -> counts.chunksRead.toString,
    "chunkBytes" -> counts.chunkBytes.toString,
    "localChunkBytes" -> counts.localChunkBytes.toString,
    "mergedBlocksRead" -> counts.mergedBlocksRead.toString,
    "originalsRead" -> counts.originalsRead.toString,
    "reasons" -> obj(counts.reasonsInOrder.map { case (code, count) => code -> count.toString }))

  private def service(service: Service): String = obj(
    Seq(
      "hostPort" -> text(service.address.toString),
      "incarnation" -> text(f"${service.incarnation}%016x"),
      "state" -> text(service.state.name)) ++ service.load.map("load" -> load(_)))

  /** When it was last heard of. */
  private def load(load: Load): String = obj(
    Seq(
      "memoryUsed" -> load.memoryUsed.toString,
      "memoryLimit" -> load.memoryLimit.toString,
      "diskFree" -> load.diskFree.toString,
      "diskTotal" -> load.diskTotal.toString))

  private def obj(fields: Seq[(String, String)]): String =
    fields.map { case (name, value) => s"${text(name)}:$value" }.mkString("{", ",", "}")

  private def array(values: Iterable[String]): String = values.mkString("[", ",", "]")

  private def text(value: String): String = value.map {
    case '"' => "\\\""
    case '\\' => "\\\\"
    case control if control < ' ' => f"\\u${control.toInt}%04x"
    case other => other.toString
  }.mkString("\"", "", "\"")
}
