// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Tags, Test}

/**
 * What [[LevelZeroSuite]] does, for a million operations. Each round has the next seed, which it
 * prints: `-Dlodestone.level0.seed` and `-Dlodestone.level0.operations` run it again.
 */
@Tags(Array(new Tag("seldom"), new Tag("seldom-4")))
final class LevelZeroLongSuite {
  private var rounds: Rounds = _

  @BeforeEach def start(): Unit = rounds = new Rounds
  @AfterEach def stop(): Unit = rounds.close()

  @Test def `a million requests are answered as by Spark's own service`(): Unit = {
    val seed = java.lang.Long.getLong("lodestone.level0.seed", System.nanoTime())
    val count = Integer.getInteger("lodestone.level0.operations", 1000000)
    val starts = 0 until count by OfARound
    starts.foreach(from => rounds.random(seed + from / OfARound, math.min(OfARound, count - from)))
  }

  /** As many as can be made shorter in a minute. */
  private val OfARound = 20000
}
