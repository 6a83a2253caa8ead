// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.lodestone.{EngineJobs, LodestoneReport}

/** Jobs whose exchanges are Auron's. */
private[auron] abstract class AuronJobs
    extends EngineJobs(classOf[LodestoneAuronShuffleManager]) {

  override protected def shuffled(
      rows: RDD[(Int, String)],
      serializer: Serializer,
      partitions: Int): RDD[String] = FakeAuron.read(FakeAuron.exchange(rows, partitions))

  protected def assertRemote(): Unit = {
    assertEquals("remote", shuffle.get("state").asText, LodestoneReport.json())
    assertEquals("auron-7", shuffle.get("format").asText)
    assertEquals(0, shuffle.get("originalsRead").asInt)
    assertEquals("{}", reasons)
  }

  protected def assertAnswers(spark: SparkContext): Unit = {
    val expected = this.expected(spark)
    assertTrue(expected.nonEmpty)
    assertEquals(expected, summary(shuffled(texts(spark))))
  }
}
