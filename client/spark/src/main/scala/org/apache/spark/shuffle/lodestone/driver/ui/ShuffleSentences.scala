// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.shuffle.lodestone.plan.Reason

/** What happened to a shuffle, and what its user could do about the reason that it names. */
private[ui] final case class ShuffleSentence(what: String, remedy: Option[String])

/** @param report the report, with the sentence and the remedy of each code */
private[ui] final class ShuffleSentences(report: JsonNode) {
  import ShuffleSentences._

  def of(shuffle: JsonNode): ShuffleSentence = {
    val said = shuffle.path("state").asText match {
      case "merged" => merged(shuffle)
      case "remote" => remote(shuffle)
      case "plain" => plain(shuffle)
      case "registered" => registered(shuffle)
      // A report of a newer version.
      case other => ShuffleSentence(s"$other.", None)
    }
    if (number(shuffle, "removedMillis") == 0) said
    else said.copy(what = said.what + " Spark has removed it.")
  }

  private def registered(shuffle: JsonNode): ShuffleSentence = {
    val pushed = number(shuffle, "blocksPushed")
    val text =
      if (pushed == 0) "Nothing was decided."
      else s"Its map tasks have pushed ${Figures.counted(pushed, "block")}."
    ShuffleSentence(text, None)
  }

  private def merged(shuffle: JsonNode): ShuffleSentence = {
    val (chunked, originals) = (read(shuffle), number(shuffle, "originalsRead"))
    if (chunked + originals == 0) {
      val pushed = Figures.counted(number(shuffle, "blocksPushed"), "block")
      withOther(s"Its map tasks pushed $pushed. Nothing was read.", shuffle)
    } else if (originals == 0) {
      withOther(s"${chunks(shuffle)}.", shuffle)
    } else {
      val code = largest(shuffle, ofBlocks = true)
      val text = s"${chunks(shuffle)}, and ${Figures.number(originals)} from map outputs"
      ShuffleSentence(text + because(code) + ".", code.flatMap(remedyOf))
    }
  }

  private def plain(shuffle: JsonNode): ShuffleSentence = {
    val code = Some(shuffle.path("decision").asText).filter(_.nonEmpty)
    val text =
      if (read(shuffle) == 0) s"Its blocks were not merged${because(code)}."
      else s"${chunks(shuffle)}. Then services were given up${because(code)}."
    ShuffleSentence(text, code.flatMap(remedyOf))
  }

  private def remote(shuffle: JsonNode): ShuffleSentence = {
    val pushed = Figures.counted(number(shuffle, "blocksPushed"), "segment")
    val kept = s"Its map tasks pushed $pushed to services, and executors keep nothing."
    val seen = if (read(shuffle) == 0) "" else s" ${chunks(shuffle, "segment")}."
    withOther(kept + seen, shuffle)
  }

  private def withOther(text: String, shuffle: JsonNode): ShuffleSentence = {
    val code = largest(shuffle, ofBlocks = false)
    val also = code.map(code => s" Also, ${sentenceOf(code)}.").getOrElse("")
    ShuffleSentence(text + also, code.flatMap(remedyOf))
  }

  /** The code with the largest number: of those that count blocks, or of all. */
  private def largest(shuffle: JsonNode, ofBlocks: Boolean): Option[String] =
    JsonParts
      .fields(shuffle.path("reasons"))
      .filterNot { case (code, _) => ofBlocks && OfOtherThings.contains(code) }
      .sortBy { case (_, count) => -count.asLong }
      .headOption
      .map(_._1)

  private def because(code: Option[String]): String =
    code.map(code => s", because ${sentenceOf(code)}").getOrElse("")

  private def sentenceOf(code: String): String = text("sentences", code).getOrElse(code)

  private def remedyOf(code: String): Option[String] =
    text("remedies", code).filter(_ != NothingToDo)

  private def text(of: String, code: String): Option[String] =
    Some(report.path(of).path(code).asText).filter(_.nonEmpty)
}

private[ui] object ShuffleSentences {
  private val NothingToDo = "Nothing."

  /** They count map tasks, services, versions of plans, or no cause why an original was read. */
  private val OfOtherThings = Seq(
    Reason.ServiceLeftOut,
    Reason.PushNotAwaited,
    Reason.ReplicasMissing,
    Reason.ReplicasInOneZone,
    Reason.RemoteMoved,
    Reason.ReaderCutOff,
    Reason.OutputLost,
    Reason.OriginalMismatch,
    Reason.RecordsUnchecked,
    Reason.EngineShuffleOff).map(_.code).toSet

  private def chunks(shuffle: JsonNode, thing: String = "block"): String =
    s"Readers took ${Figures.counted(read(shuffle), thing)} in " +
      Figures.counted(number(shuffle, "chunksRead"), "chunk")

  private def read(shuffle: JsonNode): Long = number(shuffle, "mergedBlocksRead")

  private def number(shuffle: JsonNode, name: String): Long = shuffle.path(name).asLong
}
