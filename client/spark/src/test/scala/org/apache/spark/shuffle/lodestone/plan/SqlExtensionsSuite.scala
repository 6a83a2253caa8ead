// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.LodestoneShuffleManager
import org.apache.spark.shuffle.lodestone.sql.LodestoneExtensions

class SqlExtensionsSuite {
  private val on = "spark.lodestone.nearReads" -> "true"

  private def confWith(settings: (String, String)*): SparkConf = {
    val conf = new SparkConf(false)
      .set("spark.master", "spark://a:7077")
      .setAll(settings)
    new LodestoneShuffleManager(conf, isDriver = true)
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

  @Test def `applications that cannot gain have no rule`(): Unit = Seq(
    "spark.master" -> "local[4]",
    "spark.shuffle.push.enabled" -> "true").foreach { setting =>
    assertFalse(confWith(on, setting).contains(SqlExtensions.Key), setting.toString)
  }
}
