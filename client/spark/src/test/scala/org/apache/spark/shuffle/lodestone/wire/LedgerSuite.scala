// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

class LedgerSuite {

  /** The daemon computes the same: its ledger's test has the same number. */
  @Test def `the checksum is the one of the protocol`(): Unit = {
    val segment = Segment(reduceId = 3, length = 10, records = -1, crc32c = 5, sequence = 0)
    val ledger = Ledger.of(1, 7000000000L, segment).and(Ledger.of(2, 7000000000L, segment))
    assertEquals(Ledger(2, 0xa0b26d251a03772fL), ledger)
  }

  @Test def `segments of a block differ by their numbers, and by which of them is the last`()
      : Unit = {
    val ledgers = Seq(0, 1, 2, 3).map { sequence =>
      Ledger.of(1, 7, Segment(reduceId = 3, length = 10, records = 1, crc32c = 5, sequence))
    }
    assertEquals(4, ledgers.distinct.size)
  }
}
