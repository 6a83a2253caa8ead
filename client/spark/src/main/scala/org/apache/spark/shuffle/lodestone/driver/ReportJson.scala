// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.shuffle.lodestone.driver.services.Service

/** The report as JSON. Its field names are an interface: tests and tools read them. */
private[driver] object ReportJson {

  def apply(report: DriverReport, services: Seq[Service]): String = {
    val totals = obj(
      Seq(
        "shuffles" -> report.shuffles.toString,
        "merged" -> report.merged.toString,
        "plain" -> report.plain.toString,
        "readersWaitedMillis" -> report.readersWaitedMs.toString) ++ counts(report.totals))
    obj(
      Seq(
        "totals" -> totals,
        "shuffles" -> array(report.kept.map(shuffle)),
        "services" -> array(services.map(service))))
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
      "readersWaitedMillis" -> record.readersWaitedMs.toString) ++ counts(record.counts))

  private def counts(counts: ReportCounts): Seq[(String, String)] = Seq(
    "blocksPushed" -> counts.blocksPushed.toString,
    "bytesPushed" -> counts.bytesPushed.toString,
    "pushRequests" -> counts.pushRequests.toString,
    "chunksRead" -> counts.chunksRead.toString,
    "chunkBytes" -> counts.chunkBytes.toString,
    "mergedBlocksRead" -> counts.mergedBlocksRead.toString,
    "originalsRead" -> counts.originalsRead.toString,
    "reasons" -> obj(counts.reasons.toSeq.map { case (code, count) => code -> count.toString }))

  private def service(service: Service): String = obj(
    Seq(
      "hostPort" -> text(service.address.toString),
      "incarnation" -> text(f"${service.incarnation}%016x"),
      "state" -> text(service.state.name)))

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
