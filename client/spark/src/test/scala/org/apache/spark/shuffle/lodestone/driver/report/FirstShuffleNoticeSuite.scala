// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.config.{HostPort, Mode, ServiceSource}

/** The log of a driver that was killed shows whether Lodestone was in use, and how. */
class FirstShuffleNoticeSuite {
  private def line(mode: Mode, services: ServiceSource): String =
    new FirstShuffleNotice(mode, services)(3).get
      .stripPrefix("Lodestone plans shuffles from shuffle 3 on, in mode ")

  @Test def `the log says once that Lodestone plans shuffles`(): Unit = {
    val notice = new FirstShuffleNotice(Mode.Auto, ServiceSource.Embedded)
    assertEquals(Seq(true, false, false), (0 until 3).map(notice(_).isDefined))
  }

  @Test def `the line names the mode and the services`(): Unit = {
    assertEquals(
      "auto, for services that executors start or find on their hosts",
      line(Mode.Auto, ServiceSource.Embedded))
    assertEquals(
      "remote, for services at the addresses of merge.svc, port 7337",
      line(Mode.Remote, ServiceSource.Dns("merge.svc", 7337)))
    val addresses = (1 to 7).map(HostPort("h", _))
    assertEquals(
      "merge, for services at h:1, h:2, h:3, h:4, h:5 and 2 more",
      line(Mode.Merge, ServiceSource.Listed(addresses)))
    assertEquals(
      "merge, for services at h:1",
      line(Mode.Merge, ServiceSource.Listed(addresses.take(1))))
  }
}
