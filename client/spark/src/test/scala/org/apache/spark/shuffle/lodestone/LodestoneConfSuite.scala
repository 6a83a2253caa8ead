// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Paths}

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf

class LodestoneConfSuite {

  private def read(settings: (String, String)*): LodestoneConf =
    LodestoneConf(new SparkConf(false).setAll(settings))

  private def refusal(settings: (String, String)*): String =
    assertThrows(classOf[IllegalArgumentException], () => read(settings: _*)).getMessage

  @Test def nothing_configured_means_the_embedded_daemon_and_the_defaults_of_the_table(): Unit = {
    val conf = read()
    assertEquals(ServiceSource.Embedded, conf.services)
    assertEquals(1L << 20, conf.pushMaxBlockSizeBytes)
    assertEquals(4L << 20, conf.pushBatchSizeBytes)
    assertEquals(64L << 20, conf.pushMemoryBytes)
    assertEquals(3000L, conf.finalizeTimeoutMs)
    assertEquals(8000L, conf.requestTimeoutMs)
    assertEquals(120000L, conf.leaseTtlMs)
    assertEquals(256L << 20, conf.embeddedMemoryBytes)
    assertEquals(60000L, conf.embeddedIdleTimeoutMs)
    assertEquals(None, conf.embeddedBinary)
  }

  @Test def services_are_a_list_or_a_name(): Unit = {
    assertEquals(
      ServiceSource.Listed(Seq(HostPort("a", 1), HostPort("[::1]", 7337))),
      read("spark.lodestone.services" -> "a:1, [::1]:7337,a:1").services)
    assertEquals(
      ServiceSource.Dns("lodestone.shuffle.svc", 7337),
      read("spark.lodestone.services" -> "dns:lodestone.shuffle.svc:7337").services)
  }

  @Test def a_bad_service_list_is_refused_with_the_accepted_forms(): Unit =
    Seq("nohost", "a:0", "a:65536", "a:b", ":7337", "dns:name", "::1:7337", ",").foreach { value =>
      assertEquals(
        s"spark.lodestone.services is '$value', but must be 'host:port,host:port', " +
          "'dns:name:port', or unset.",
        refusal("spark.lodestone.services" -> value))
    }

  @Test def an_unknown_key_is_refused_with_the_nearest_known_one(): Unit =
    assertEquals(
      "There is no configuration key spark.lodestone.push.maxBlocksize; " +
        "did you mean spark.lodestone.push.maxBlockSize?",
      refusal("spark.lodestone.push.maxBlocksize" -> "1m"))

  @Test def a_number_without_a_unit_is_refused(): Unit = {
    assertEquals(
      "spark.lodestone.finalize.timeout is '3', but must be a time with a unit between 0ms and " +
        "600000ms, such as 3s.",
      refusal("spark.lodestone.finalize.timeout" -> "3"))
    assertTrue(refusal("spark.lodestone.push.memory" -> "64").contains("a size with a unit"))
  }

  @Test def values_out_of_range_are_refused(): Unit =
    Seq(
      "push.maxBlockSize" -> "0b",
      "push.maxBlockSize" -> "5m",
      "push.batchSize" -> "65m",
      "push.batchSize" -> "1k",
      "push.memory" -> "1m",
      "push.memory" -> "99999999999999999999g",
      "finalize.timeout" -> "-1s",
      "finalize.timeout" -> "11min",
      "request.timeout" -> "99ms",
      "lease.ttl" -> "9s",
      "lease.ttl" -> "61min",
      "embedded.memory" -> "15m",
      "embedded.idleTimeout" -> "999ms").foreach { case (key, value) =>
      val message = refusal(s"spark.lodestone.$key" -> value)
      assertTrue(message.startsWith(s"spark.lodestone.$key is '$value', but must be "), message)
    }

  @Test def keys_of_others_are_left_alone(): Unit =
    assertEquals(read(), read("spark.lodestones" -> "x", "spark.shuffle.compress" -> "false"))

  @Test def the_table_in_the_documentation_is_the_code(): Unit = {
    val file = Paths.get(System.getProperty("lodestone.vectors"), "../../docs/configuration.md")
    val text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8)
    val rows = text.split("\n").toSeq.filter(_.startsWith("| `spark.lodestone."))
    val expected = LodestoneConf.keys.map { key =>
      val default = if (key.default.isEmpty) "(unset)" else s"`${key.default}`"
      s"| `${key.name}` | $default | ${key.doc} |"
    }
    assertEquals(expected, rows)
    assertTrue(LodestoneConf.keys.size <= 15, "STYLE.md allows 15 keys")
  }
}
