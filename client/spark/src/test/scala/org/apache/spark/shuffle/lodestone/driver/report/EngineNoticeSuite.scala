// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.LodestoneShuffleManager

final class EngineNoticeSuite {
  private val ours = "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName
  private val comet = "spark.plugins" -> "org.example.Other, org.apache.spark.CometPlugin"

  private def said(settings: (String, String)*): Seq[String] =
    EngineNotice(new SparkConf(false).setAll(settings))

  @Test def `a user of Comet learns which shuffle manager to set`(): Unit = {
    val key = "spark.shuffle.manager=org.apache.spark.shuffle.lodestone.comet." +
      "LodestoneCometShuffleManager"
    assertTrue(said(ours, comet).exists(_.contains(key)))
    val extension = "spark.sql.extensions" -> "org.apache.comet.CometSparkSessionExtensions"
    assertTrue(said(ours, extension).exists(_.contains(key)))
  }

  @Test def `a user of Gluten or Auron learns what becomes of their shuffles`(): Unit = {
    val gluten = "spark.plugins" -> "org.apache.gluten.GlutenPlugin"
    val auron =
      "spark.sql.extensions" -> "org.apache.spark.sql.auron.AuronSparkSessionExtension"
    for ((engine, off, name) <- Seq(
        (gluten, "spark.gluten.enabled", "LodestoneGlutenShuffleManager"),
        (auron, "spark.auron.enabled", "lodestone.auron.LodestoneAuronShuffleManager"),
        (auron, "spark.auron.enable", "lodestone.auron.LodestoneAuronShuffleManager"))) {
      assertTrue(said(ours, engine).exists(_.contains(name)))
      assertEquals(Nil, said(ours, engine, off -> "false"))
      assertEquals(Nil, said(engine, "spark.shuffle.manager" -> s"org.example.$name"))
    }
    assertEquals(3, said(ours, auron, "spark.plugins" -> s"${comet._2},${gluten._2}").size)
  }

  @Test def `nothing is said without an engine or to a user who has chosen`(): Unit = {
    val other = "spark.shuffle.manager" -> "org.example.LodestoneCometShuffleManager"
    for (settings <- Seq(
        Seq(ours),
        Seq(other, comet),
        Seq(ours, comet, "spark.comet.enabled" -> "false"),
        Seq(ours, comet, "spark.comet.exec.shuffle.enabled" -> "false"),
        Seq(ours, comet, "spark.comet.shuffle.enabled" -> "false"))) {
      assertEquals(Nil, said(settings: _*), settings.toString)
    }
  }
}
