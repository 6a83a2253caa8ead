// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import scala.util.Random

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.wire.Ledger

final class PackedCountsSuite {

  private def report(ledgers: Map[Int, Ledger]): MapPushed = {
    val unpushed = Map("PUSH_TOO_LATE" -> 3L)
    val counts = PushCounts(10000, 1L << 20, 1000, ledgers, unpushed, unsure = Set(0, 700))
    MapPushed(ShuffleGeneration(3, 0), 1, 2, counts)
  }

  @Test def `a report arrives as it was sent`(): Unit = {
    val random = new Random(7)
    val numbers = Seq(0L, 1L, 127L, 128L, Int.MaxValue.toLong, Long.MaxValue, -1L)
    val some = numbers.zipWithIndex.map { case (number, i) =>
      (i * i * 1000) -> Ledger(number, random.nextLong())
    }.toMap
    Seq(Map.empty[Int, Ledger], some, Map(Int.MaxValue -> Ledger(3, -3))).foreach { ledgers =>
      val sent = report(ledgers)
      assertEquals(sent, SentByRpc.arrived(sent))
    }
  }

  @Test def `the report of a map task on a thousand services takes little of the driver`(): Unit = {
    val random = new Random(7)
    val ledgers = (0 until 1000).map(_ -> Ledger(10, random.nextLong())).toMap
    val bytes = SentByRpc.bytes(report(ledgers)).length
    val asObjects = SentByRpc.bytes(ledgers).length
    println(s"report on 1,000 services: $bytes bytes; its ledgers as objects: $asObjects bytes")
    assertTrue(bytes < 12 * 1024, s"$bytes bytes")
  }
}
