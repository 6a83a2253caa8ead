// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import org.apache.spark.SPARK_VERSION
import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions._

/**
 * The daemon in place of Spark's own external shuffle service (level 0: no plugin). Both get the
 * same operations, and Spark's own code is the reference. [[LevelZeroLongSuite]] has more.
 */
final class LevelZeroSuite {
  private var rounds: Rounds = _

  @BeforeEach def start(): Unit = rounds = new Rounds
  @AfterEach def stop(): Unit = rounds.close()

  @Test def `what clients of Spark ask of a service is answered as by Spark's own`(): Unit = {
    val seed = java.lang.Long.getLong("lodestone.level0.seed", 4711L)
    rounds.random(seed, Integer.getInteger("lodestone.level0.operations", 5000))
    ()
  }

  @Test def `each difference from Spark's service that is meant is really there`(): Unit =
    Improvement.all.filter(isOfThisLine).foreach { improvement =>
      val seen = rounds.run(improvement.shown)
      assertTrue(seen.contains(improvement), s"${improvement.name}: only $seen")
    }

  @Test def `offsets that Spark's service keeps of an earlier output hide no block`(): Unit = {
    val before = WriteOutput(0, 0, 0, 41, List(1516, 1100))
    rounds.run(List(
      Register(0, 0, 1),
      WriteOutput(0, 0, 0, 5, List(59, 1778)),
      before,
      Diagnose(0, 0, 0, 41, 2, 1, "ADLER32"),
      before.copy(lengths = List(5103, 2346, 2260)),
      Fetch(0, 0, 0, List(Wanted(41, List(0, 2)), Wanted(5, List(0, 1))))))
    ()
  }

  private def isOfThisLine(improvement: Improvement): Boolean =
    improvement != Improvement.Crc32c || SPARK_VERSION.startsWith("3.")
}
