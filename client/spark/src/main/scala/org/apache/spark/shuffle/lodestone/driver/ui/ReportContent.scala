// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import scala.xml.{Node, NodeSeq}

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.ui.UIUtils
import org.apache.spark.util.Utils

/** The content of the page: what Lodestone did with the shuffles of an application, and why. */
private[ui] final class ReportContent(stored: StoredReport) {
  import ReportContent._

  /** @param parameter the parameters of the request: `all=true` shows all shuffles that are kept */
  def all(parameter: String => String): Seq[Node] = stored.totals match {
    case None => <p>No shuffle has been registered yet.</p>
    case Some((time, totals)) =>
      val kept = stored.shuffles
      val shown = if (parameter("all") == "true") kept else kept.take(Shown)
      <p>As of {UIUtils.formatDate(time)}.</p> ++ sums(totals) ++ services(totals) ++
        reasons(totals) ++ listed(totals, kept, shown)
  }

  private def sums(report: JsonNode): Seq[Node] = {
    val totals = report.path("totals")
    def count(name: String) = Figures.number(totals.path(name).asLong)
    def bytes(name: String) = Utils.bytesToString(totals.path(name).asLong)
    val encoded =
      if (totals.path("rowBytes").asLong == 0) NodeSeq.Empty
      else
        item(
          "Encoded",
          s"${bytes("rowBytes")} of rows in ${bytes("encodedBytes")}, and compressed to " +
            bytes("compressedBytes"))
    <ul class="list-unstyled">
      {
      item(
        "Shuffles",
        s"${count("shuffles")}: ${count("merged")} merged, ${count("remote")} remote, " +
          s"${count("plain")} left to plain Spark or not merged")
    }
      {
      item(
        "Pushed",
        s"${count("blocksPushed")} blocks (of remote shuffles: segments), " +
          s"${bytes("bytesPushed")}, in ${count("pushRequests")} requests")
    }
      {encoded}
      {
      item(
        "Read",
        s"${count("mergedBlocksRead")} blocks in ${count("chunksRead")} chunks, " +
          s"${bytes("chunkBytes")} (${bytes("localChunkBytes")} on the reader's host); " +
          s"${count("originalsRead")} blocks from map outputs")
    }
      {
      item(
        "Waited",
        Figures.millis(totals.path("readersWaitedMillis").asLong) +
          ": readers, for pushes to end")
    }
    </ul>
  }

  private def item(name: String, text: String): Node =
    <li><strong>{name}:</strong> {text}</li>

  private def services(report: JsonNode): Seq[Node] = {
    val services = JsonParts.elements(report.path("services"))
    def row(service: JsonNode): Seq[Node] = {
      val load = service.path("load")
      def of(used: Long, limit: String) =
        if (load.isMissingNode) "-"
        else s"${Utils.bytesToString(used)} of ${Utils.bytesToString(load.path(limit).asLong)}"
      val disk = load.path("diskTotal").asLong - load.path("diskFree").asLong
      <tr>
        <td>{service.path("hostPort").asText}</td>
        <td>{service.path("state").asText}</td>
        <td>{of(load.path("memoryUsed").asLong, "memoryLimit")}</td>
        <td>{of(disk, "diskTotal")}</td>
      </tr>
    }
    section("Services", services)(
      UIUtils.listingTable(Seq("Service", "State", "Memory used", "Disk used"), row, services))
  }

  private def reasons(report: JsonNode): Seq[Node] = {
    val reasons = JsonParts.fields(report.path("totals").path("reasons"))
    def row(reason: (String, JsonNode)): Seq[Node] = {
      val (code, count) = reason
      <tr>
        <td>{code}</td>
        <td sorttable_customkey={count.asText}>{Figures.number(count.asLong)}</td>
        <td>{report.path("sentences").path(code).asText}</td>
        <td>{report.path("remedies").path(code).asText}</td>
      </tr>
    }
    section("Why not more", reasons)(
      UIUtils.listingTable(Seq("Reason", "Count", "Meaning", "What to do"), row, reasons))
  }

  private def listed(
      report: JsonNode,
      kept: Seq[JsonNode],
      shown: Seq[JsonNode]): Seq[Node] = {
    val number = report.path("totals").path("shuffles").asLong
    val title =
      if (shown.size < number) {
        s"The last ${Figures.number(shown.size.toLong)} of ${Figures.number(number)} shuffles"
      } else "Shuffles"
    val more =
      if (shown.size < kept.size) <p><a href="?all=true">All that are kept</a></p>
      else NodeSeq.Empty
    val (sentences, timeline) = (new ShuffleSentences(report), Timeline.of(kept))
    def row(shuffle: JsonNode): Seq[Node] = ShuffleRow(shuffle, sentences, timeline)
    section(title, shown)(
      more ++ UIUtils.listingTable(
        ShuffleRow.Headers,
        row,
        shown,
        tooltipHeaders = ShuffleRow.Tooltips))
  }

  private def section(title: String, rows: Seq[_])(content: => Seq[Node]): Seq[Node] =
    if (rows.isEmpty) Nil else <h4>{title}</h4> ++ content
}

private[ui] object ReportContent {
  val Title = "Lodestone: shuffles"

  /** A page of more takes a browser seconds. */
  private val Shown = 200
}
