// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.plan.Reason

final class PlainNoticeSuite {
  private def notice(settings: (String, String)*): PlainNotice =
    new PlainNotice(new SparkConf(false).setAll(settings))

  @Test def `a setting that leaves shuffles to Spark is a warning with the remedy, once`()
      : Unit = {
    val ofConfiguration = Seq(
      Reason.SerializerNotRelocatable,
      Reason.CodecNotConcatenable,
      Reason.CipherUnknown,
      Reason.SecretNotShared,
      Reason.RpcEncryption,
      Reason.SparkPush,
      Reason.CustomShuffleIo,
      Reason.OldFetchProtocol,
      Reason.EngineShuffle,
      Reason.EngineNotEncrypted)
    val one = notice()
    val said = for (shuffleId <- 0 to 2; reason <- ofConfiguration) yield one(shuffleId, reason)
    assertEquals(ofConfiguration.size, said.flatten.size)
    for ((line, reason) <- said.flatten.zip(ofConfiguration)) {
      assertTrue(line.startsWith("Shuffle 0 is left to plain Spark"), line)
      assertTrue(line.contains(s"($reason)") && line.endsWith(reason.remedy), line)
    }
  }

  @Test def `shuffles that gain nothing by Lodestone are no warning`(): Unit = {
    val harmless = Seq(
      Reason.SingleMap,
      Reason.NoPartitions,
      Reason.BarrierStage,
      Reason.FewBlocks,
      Reason.LargeBlocks)
    assertEquals(Nil, harmless.flatMap(notice()(0, _)))
  }

  @Test def `in mode remote the warning of the start is not repeated`(): Unit = {
    val remote = notice("spark.lodestone.mode" -> "remote", "spark.shuffle.push.enabled" -> "true")
    assertEquals(None, remote(0, Reason.SparkPush))
    assertTrue(remote(0, Reason.EngineNotEncrypted).isDefined)
  }
}
