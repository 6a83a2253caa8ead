// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf

final class JarNoticeSuite {
  private def conf(keys: (String, String)*) =
    new SparkConf(false).setMaster("spark://host:7077").setAll(keys)

  @Test def `executors of Spark 3 that lack the jar are announced with the missing key`(): Unit = {
    val said = JarNotice.of(conf(), "3.5.9", isOnClassPath = false)
    assertTrue(said.exists(_.endsWith("set spark.executor.extraClassPath")), said.toString)
    // The driver has it from --driver-class-path.
    val fetched = conf("spark.jars" -> "/opt/a.jar,/opt/lodestone-spark-3.5_2.12.jar")
    assertEquals(said, JarNotice.of(fetched, "3.5.9", isOnClassPath = true))
  }

  @Test def `executors that may have the jar are not announced`(): Unit = {
    val enough = conf("spark.executor.extraClassPath" -> "/opt/lodestone.jar")
    assertEquals(None, JarNotice.of(enough, "3.5.9", isOnClassPath = false))
    assertEquals(None, JarNotice.of(conf(), "3.5.9", isOnClassPath = true))
    assertEquals(None, JarNotice.of(conf(), "4.1.4", isOnClassPath = false))
    val local = conf().setMaster("local[2]")
    assertEquals(None, JarNotice.of(local, "3.5.9", isOnClassPath = false))
  }
}
