// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

/** A user reads what happened to a shuffle, and what to do, without a table of codes. */
class ShuffleSentencesSuite {
  private val sentences = new ShuffleSentences(json(
    """{"sentences":{"LARGE_BLOCKS":"they are large","PUSH_QUOTA":"its share is used up",
      |"SERVICE_LEFT_OUT":"a service was slow","CHUNK_BROKEN":"a chunk was broken"},
      |"remedies":{"LARGE_BLOCKS":"Nothing.","PUSH_QUOTA":"Give more memory.",
      |"SERVICE_LEFT_OUT":"Check it."}}""".stripMargin))

  private def json(text: String): JsonNode = new ObjectMapper().readTree(text)

  private def shuffle(fields: String): JsonNode = json(s"{$fields}")

  private def said(fields: String): ShuffleSentence = sentences.of(shuffle(fields))

  private def only(text: String) = ShuffleSentence(text, None)

  @Test def `a merged shuffle says how its blocks were read, and why not all of them`(): Unit = {
    val merged = """"state":"merged","blocksPushed":1200"""
    assertEquals(only("Its map tasks pushed 1,200 blocks. Nothing was read."), said(merged))
    val read = s"""$merged,"mergedBlocksRead":1150,"chunksRead":1"""
    assertEquals(only("Readers took 1,150 blocks in 1 chunk."), said(read))
    // The largest number is of blocks whose records were not checked: no reason to read originals.
    val both = s"""$read,"originalsRead":50,"reasons":{"RECORDS_UNCHECKED":90,"PUSH_QUOTA":50}"""
    assertEquals(
      ShuffleSentence(
        "Readers took 1,150 blocks in 1 chunk, and 50 from map outputs, because its share is " +
          "used up.",
        Some("Give more memory.")),
      said(both))
  }

  @Test def `a remedy comes with the reason that it is for`(): Unit = {
    val left =
      """"state":"merged","mergedBlocksRead":2,"chunksRead":2,"reasons":{"SERVICE_LEFT_OUT":1}"""
    assertEquals(
      ShuffleSentence(
        "Readers took 2 blocks in 2 chunks. Also, a service was slow.",
        Some("Check it.")),
      said(left))
    val open = """"state":"registered","blocksPushed":1,"reasons":{"PUSH_QUOTA":3}"""
    assertEquals(only("Its map tasks have pushed 1 block."), said(open))
    assertEquals(only("Nothing was decided."), said(""""state":"registered""""))
  }

  @Test def `a shuffle without services says why, and what was read before`(): Unit = {
    val large = """"state":"plain","decision":"LARGE_BLOCKS","reasons":{"PUSH_QUOTA":9000}"""
    assertEquals(only("Its blocks were not merged, because they are large."), said(large))
    val broken = """"state":"plain","decision":"CHUNK_BROKEN","mergedBlocksRead":9,"chunksRead":3"""
    assertEquals(
      only("Readers took 9 blocks in 3 chunks. Then services were given up, because a chunk was " +
        "broken."),
      said(broken))
    val newer = """"state":"plain","decision":"NEW_CODE""""
    assertEquals(only("Its blocks were not merged, because NEW_CODE."), said(newer))
  }

  @Test def `a remote shuffle counts segments, and says when it is gone`(): Unit = {
    val remote = """"state":"remote","blocksPushed":20"""
    val kept = "Its map tasks pushed 20 segments to services, and executors keep nothing."
    assertEquals(only(kept), said(remote))
    val read = s"""$remote,"mergedBlocksRead":20,"chunksRead":2,"removedMillis":5"""
    assertEquals(
      only(s"$kept Readers took 20 segments in 2 chunks. Spark has removed it."),
      said(read))
  }

  @Test def `bars of time stay on the axis, and the removal of a shuffle does not move them`()
      : Unit = {
    val first = shuffle(
      """"registeredMillis":1000,"decidedMillis":1500,"changedMillis":2000,"removedMillis":90000""")
    val second = shuffle(""""registeredMillis":2000,"changedMillis":3000""")
    val timeline = Timeline.of(Seq(second, first))
    assertTrue(timeline.bar(first).mkString.contains(
      "registered 0 ms after the first shuffle, decided 0.5 s, last report 1 s"))
    val open = timeline.bar(second).mkString
    assertTrue(open.contains("registered 1 s after the first shuffle, last report 2 s"))
    assertEquals(1, open.split("<rect", -1).length - 1)
    val backwards = shuffle(""""registeredMillis":2500,"decidedMillis":9,"changedMillis":-70""")
    assertFalse(timeline.bar(backwards).mkString.contains("=\"-"))
  }
}
