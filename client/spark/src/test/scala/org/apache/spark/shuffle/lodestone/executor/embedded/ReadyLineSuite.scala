// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.config.HostPort

class ReadyLineSuite {
  private val line =
    "lodestone ready listen=127.0.0.1:40001 incarnation=8f00000000000001 pid=77 version=0.1.0"

  @Test def `a ready line is read also with an incarnation above the signed range`(): Unit =
    assertEquals(
      Some(ReadyLine(HostPort("127.0.0.1", 40001), 0x8f00000000000001L, 77, "0.1.0", false)),
      ReadyLine.parse(line))

  @Test def `the line of one that was quicker says so`(): Unit =
    assertEquals(Some(true), ReadyLine.parse(line + " existing=true").map(_.existing))

  @Test def `anything else is no ready line`(): Unit =
    Seq(
      "",
      "lodestone ready ",
      "hello",
      "x " + line,
      line.replace("40001", "0"),
      line.replace("40001", "forty"),
      line.replace("8f00000000000001", "0"),
      line.replace("8f00000000000001", "xyz"),
      line.replace("pid=77", "pid=me"),
      line.replace("version=", "vers="),
      line + " " * ReadyLine.MaxChars).foreach { other =>
      assertEquals(None, ReadyLine.parse(other), other)
    }
}
