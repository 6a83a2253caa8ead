// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse}
import org.junit.jupiter.api.Test

import org.apache.spark.{SparkConf, SPARK_VERSION}

final class ProtectionSuite {
  private val Aes = "spark.network.crypto.enabled"
  private val Tls = "spark.ssl.rpc.enabled"

  @Test def `what Spark encrypts is encrypted once, with TLS only where Spark has it`(): Unit = {
    val keys = Seq("spark.authenticate", Aes, Tls).map(_ -> "true")
    val conf = new SparkConf(false).set("spark.app.id", "app-1").setAll(keys)
    val settings = Protection.of(conf, () => null, _ => Map(Tls -> "true")).settings
    if (SPARK_VERSION.startsWith("3.")) {
      assertEquals("true", settings(Aes))
      assertFalse(settings.contains(Tls))
    } else {
      assertEquals("false", settings(Aes))
      assertEquals("true", settings(Tls))
    }
  }
}
