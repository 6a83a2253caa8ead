// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.ShuffleManager
import org.apache.spark.shuffle.lodestone.LodestoneShuffleManager
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameEngineShuffleManager
import org.apache.spark.shuffle.lodestone.sql.LodestoneExtensions

class SqlExtensionsSuite {
  private val on = "spark.lodestone.nearReads" -> "true"

  private def confWith(settings: (String, String)*): SparkConf =
    confOf(new LodestoneShuffleManager(_, isDriver = true), settings: _*)

  private def confOf(manager: SparkConf => ShuffleManager, settings: (String, String)*) = {
    val conf = new SparkConf(false)
      .set("spark.master", "spark://a:7077")
      .setAll(settings)
    manager(conf)
    conf
  }

  @Test def `the rule is named as Spark loads it`(): Unit =
    assertEquals(classOf[LodestoneExtensions].getName, SqlExtensions.OurName)

  @Test def `without the setting the extensions stay as they are`(): Unit = {
    assertFalse(confWith().contains(SqlExtensions.Key))
    val theirs = SqlExtensions.Key -> "org.example.One"
    assertEquals("org.example.One", confWith(theirs).get(SqlExtensions.Key))
  }

  @Test def `extensions of the user stay and ours is there once`(): Unit = {
    assertEquals(SqlExtensions.OurName, confWith(on).get(SqlExtensions.Key))
    val theirs = "org.example.One,org.example.Two"
    val both = s"${SqlExtensions.OurName},$theirs"
    assertEquals(both, confWith(on, SqlExtensions.Key -> theirs).get(SqlExtensions.Key))
    assertEquals(both, confWith(on, SqlExtensions.Key -> both).get(SqlExtensions.Key))
  }

  @Test def `the manager of an engine adds no rule`(): Unit =
    for (mode <- Seq("auto", "merge", "remote")) {
      val settings = Seq(on, "spark.lodestone.mode" -> mode)
      assertEquals(SqlExtensions.OurName, confWith(settings: _*).get(SqlExtensions.Key))
      def ofEngine(more: (String, String)*) =
        confOf(new FrameEngineShuffleManager(_, isDriver = true), settings ++ more: _*)
      assertFalse(ofEngine().contains(SqlExtensions.Key), mode)
      val theirs = SqlExtensions.Key -> "org.example.One"
      assertEquals("org.example.One", ofEngine(theirs).get(SqlExtensions.Key))
    }

  @Test def `applications that cannot gain have no rule`(): Unit = Seq(
    "spark.master" -> "local[4]",
    "spark.shuffle.push.enabled" -> "true").foreach { setting =>
    assertFalse(confWith(on, setting).contains(SqlExtensions.Key), setting.toString)
  }
}
