// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import org.apache.spark.SPARK_VERSION
import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Tags, Test}
import org.junit.jupiter.api.Assertions._

/**
 * The daemon in place of Spark's own external shuffle service (level 0: no plugin). Both get the
 * same operations, and Spark's own code is the reference. Long sequences still find differences
 * that the model does not know: `make conformance` runs it, and `make test` the cases of
 * [[ServiceCasesSuite]].
 */
@Tags(Array(new Tag("seldom"), new Tag("seldom-4")))
final class LevelZeroSuite {
  private var rounds: Rounds = _

  @BeforeEach def start(): Unit = rounds = new Rounds
  @AfterEach def stop(): Unit = rounds.close()

  @Test def `what clients of Spark ask of a service is answered as by Spark's own`(): Unit = {
    val seed = java.lang.Long.getLong("lodestone.level0.seed", System.nanoTime())
    rounds.random(seed, Integer.getInteger("lodestone.level0.operations", 20000))
    ()
  }

  @Test def `each difference from Spark's service that is meant is really there`(): Unit =
    Improvement.all.filter(isOfThisLine).foreach { improvement =>
      val seen = rounds.run(improvement.shown)
      assertTrue(seen.contains(improvement), s"${improvement.name}: only $seen")
    }

  private def isOfThisLine(improvement: Improvement): Boolean =
    improvement != Improvement.Crc32c || SPARK_VERSION.startsWith("3.")
}
