// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.{LodestoneShuffleManager, LogCapture}

final class RemoteDefaultsSuite {

  private def confWith(settings: (String, String)*): SparkConf =
    new SparkConf(false).set("spark.lodestone.mode", "remote").setAll(settings)

  private def warningsOf(conf: SparkConf): Seq[String] = LogCapture.warnings {
    new LodestoneShuffleManager(conf, isDriver = true)
    ()
  }

  @Test def `Spark protects outputs if no shuffle can be remote`(): Unit = Seq(
    "spark.authenticate" -> "true",
    "spark.ssl.rpc.enabled" -> "true",
    "spark.shuffle.push.enabled" -> "true",
    "spark.shuffle.useOldFetchProtocol" -> "true",
    RemoteDefaults.IoPlugin -> "org.example.OtherShuffleDataIO").foreach { obstacle =>
    val conf = confWith(obstacle)
    val before = conf.getAll.toSet
    val said = warningsOf(conf)
    assertEquals(before, conf.getAll.toSet, obstacle.toString)
    assertEquals(1, said.size, s"$obstacle: $said")
    said.foreach { text =>
      assertTrue(text.contains("no shuffle of this application"), text)
    }
  }

  @Test def `values of the user stay and the others are set for mode remote`()
      : Unit = {
    val conf = confWith("spark.dynamicAllocation.shuffleTracking.enabled" -> "true")
    assertEquals(Nil, warningsOf(conf))
    assertEquals("true", conf.get("spark.dynamicAllocation.shuffleTracking.enabled"))
    assertEquals(classOf[RemoteShuffleDataIO].getName, conf.get(RemoteDefaults.IoPlugin))
    assertEquals("false", conf.get("spark.sql.adaptive.localShuffleReader.enabled"))
    // Spark reads it before the shuffle manager exists, so a value set here would be wrong.
    assertFalse(conf.contains("spark.shuffle.reduceLocality.enabled"))
  }
}
