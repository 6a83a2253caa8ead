// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

class ReasonSuite {
  private val row = """\| `([A-Z_]+)` \| ([^|]+) \| ([^|]+) \|""".r
  private val link = """\[([^\]]+)\]\([^)]*\)""".r

  @Test def `every reason is explained to users in the words that the log has`(): Unit = {
    val file = Paths.get(System.getProperty("lodestone.vectors"), "../../docs/reasons.md")
    val lines = new String(Files.readAllBytes(file), UTF_8).linesIterator.toSeq
    val documented = lines.collect { case row(code, sentence, remedy) =>
      (code, sentence, link.replaceAllIn(remedy, "$1").replace("`", ""))
    }
    assertEquals(
      Reason.all.map(reason => (reason.code, reason.sentence, reason.remedy)),
      documented)
  }

  @Test def `a code is found by its name and is used once`(): Unit = {
    assertEquals(Reason.all, Reason.all.flatMap(reason => Reason.of(reason.code)))
    assertEquals(Reason.all.size, Reason.all.map(_.code).distinct.size)
  }
}
