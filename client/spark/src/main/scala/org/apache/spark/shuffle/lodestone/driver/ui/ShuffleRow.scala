// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import scala.xml.Node

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.util.Utils

/** The row of one shuffle. */
private[ui] object ShuffleRow {

  private val columns: Seq[(String, Option[String])] = Seq(
    "Shuffle" -> Some("The id of the shuffle in Spark"),
    "State" -> Some("registered, merged, remote, or plain: no service is used any more"),
    "What happened, and what you can do" -> None,
    "Maps" -> None,
    "Partitions" -> None,
    "Rows" -> Some("Bytes of rows before they were encoded by column and compressed"),
    "Stored" -> Some("Bytes of encoded rows after compression"),
    "Pushed" -> Some("Bytes that services took, in all generations"),
    "Merged" -> Some("Of the blocks that were read: those from chunks of services"),
    "Waited" -> Some("The time that readers waited for pushes to end"),
    "Services" -> None,
    "Timeline" -> Some("From its registration to its last report; dark after the decision"))

  val Headers: Seq[String] = columns.map(_._1)
  val Tooltips: Seq[Option[String]] = columns.map(_._2)

  def apply(shuffle: JsonNode, sentences: ShuffleSentences, timeline: Timeline): Seq[Node] = {
    def number(name: String) = shuffle.path(name).asLong
    def count(name: String) = cell(number(name), Figures.number(number(name)))
    def bytes(name: String) =
      cell(number(name), if (number(name) == 0) "-" else Utils.bytesToString(number(name)))
    val sentence = sentences.of(shuffle)
    val waited = number("readersWaitedMillis")
    <tr>
      {count("shuffleId")}
      <td>{shuffle.path("state").asText}</td>
      <td>{sentence.what}{sentence.remedy.toSeq.map(text => <br/> ++ <em>{text}</em>)}</td>
      {count("maps")}
      {count("partitions")}
      {bytes("rowBytes")}
      {bytes("compressedBytes")}
      {bytes("bytesPushed")}
      {share(number("mergedBlocksRead"), number("originalsRead"))}
      {cell(waited, Figures.millis(waited))}
      {count("services")}
      <td>{timeline.bar(shuffle)}</td>
    </tr>
  }

  private def share(merged: Long, originals: Long): Node = {
    val all = merged + originals
    val percent = if (all == 0) -1 else merged * 100 / all
    cell(percent, if (all == 0) "-" else s"$percent %")
  }

  private def cell(key: Long, text: String): Node =
    <td sorttable_customkey={key.toString}>{text}</td>
}
