// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.net.{InetAddress, ServerSocket}
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.Await
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.{SparkConf, SPARK_VERSION}
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.wire.Application

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

  /** Asks twice, with a handshake that throws. Returns the failures and how often it began. */
  private def failuresOf(thrown: => Error): (Seq[IOException], Int) = {
    val conf = new SparkConf(false).set("spark.app.id", "app-1").set("spark.authenticate", "true")
    val handshakes = new AtomicInteger
    val protection = Protection.of(
      conf,
      { () =>
        handshakes.incrementAndGet()
        throw thrown
      })
    val server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress)
    val client = new ServiceClient(Application("app-1", -1), 60000, protection = protection)
    try {
      val address = HostPort(server.getInetAddress.getHostAddress, server.getLocalPort)
      def ask(): Unit = {
        Await.result(client.hello(address), 20.seconds)
        ()
      }
      (Seq.fill(2)(assertThrows(classOf[IOException], () => ask())), handshakes.get)
    } finally {
      client.close()
      server.close()
    }
  }

  @Test def `requests learn of a class that a handshake lacks`(): Unit = {
    val (failures, _) = failuresOf(new NoClassDefFoundError("of a cipher"))
    failures.foreach(one => assertTrue(one.getMessage.contains("of a cipher"), one.getMessage))
  }

  @Test def `an error in a handshake ends the requests that wait, and the next one dials again`()
      : Unit = {
    val (failures, handshakes) = failuresOf(new OutOfMemoryError("on purpose"))
    assertTrue(failures.forall(_.getMessage.contains("prevented the connection")), s"$failures")
    assertTrue(handshakes >= 2, s"$handshakes")
  }
}
