// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Tags, Test}

/** What [[LevelZeroSuite]] does, for a million operations. */
@Tags(Array(new Tag("seldom"), new Tag("seldom-4")))
final class LevelZeroLongSuite {
  private var rounds: Rounds = _

  @BeforeEach def start(): Unit = rounds = new Rounds
  @AfterEach def stop(): Unit = rounds.close()

  @Test def `a million requests are answered as by Spark's own service`(): Unit =
    (1 to 10).foreach(seed => rounds.random(seed.toLong, 100000))
}
