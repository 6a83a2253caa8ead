// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.{SparkConf, SPARK_VERSION}
import org.apache.spark.shuffle.lodestone.{LodestoneShuffleManager, LogCapture}

final class RemoteDefaultsSuite {

  private def confWith(settings: (String, String)*): SparkConf =
    new SparkConf(false).set("spark.lodestone.mode", "remote").setAll(settings)

  private def warningsOf(conf: SparkConf): Seq[String] = LogCapture.warnings {
    new LodestoneShuffleManager(conf, isDriver = true)
    ()
  }

  private val On = "spark.authenticate" -> "true"
  private val Named = "spark.lodestone.services" -> "127.0.0.1:7337"
  private val NodeManagers = "spark.shuffle.service.enabled" -> "true"
  private val Tls = "spark.ssl.rpc.enabled" -> "true"

  @Test def `Spark protects outputs if no shuffle can be remote`(): Unit = Seq(
    Seq(On, "spark.authenticate.enableSaslEncryption" -> "true"),
    Seq(
      On,
      "spark.network.crypto.enabled" -> "true",
      "spark.network.crypto.cipher" -> "AES/CBC/PKCS5Padding"),
    // There Spark makes a secret that no other process knows.
    Seq(On, Named, "spark.master" -> "yarn"),
    Seq(On, Named, "spark.master" -> "yarn", NodeManagers, "spark.shuffle.service.port" -> "7447"),
    Seq(On, Named, "spark.master" -> "local[2]"),
    Seq(On, Named, "spark.master" -> "k8s://https://127.0.0.1"),
    Seq("spark.shuffle.push.enabled" -> "true"),
    Seq("spark.shuffle.useOldFetchProtocol" -> "true"),
    Seq(RemoteDefaults.IoPlugin -> "org.example.OtherShuffleDataIO")).foreach { obstacle =>
    val conf = confWith(obstacle: _*)
    val before = conf.getAll.toSet
    val said = warningsOf(conf)
    assertEquals(before, conf.getAll.toSet, obstacle.toString)
    assertEquals(1, said.size, s"$obstacle: $said")
    said.foreach { text =>
      assertTrue(text.contains("no shuffle of this application"), text)
      val reason = ShuffleEligibility.remoteObstacle(conf).get
      assertTrue(text.endsWith(reason.remedy), text)
    }
  }

  @Test def `applications that services can authenticate are remote`(): Unit = Seq(
    Seq(On),
    Seq(On, "spark.master" -> "yarn"),
    Seq(On, Named, "spark.master" -> "yarn", NodeManagers),
    Seq(On, Named, "spark.master" -> "spark://127.0.0.1:7077"),
    Seq(On, Named, "spark.master" -> "local-cluster[2,1,1024]"),
    Seq(
      On,
      Named,
      "spark.master" -> "k8s://https://127.0.0.1",
      "spark.authenticate.secret.file" -> "/etc/secret"),
    Seq(On, "spark.network.crypto.enabled" -> "true")).foreach { settings =>
    assertEquals(None, ShuffleEligibility.remoteObstacle(confWith(settings: _*)), s"$settings")
  }

  @Test def `with TLS the daemon of an executor's host needs a certificate that it can read`()
      : Unit = {
    def obstacle(settings: Seq[(String, String)]) =
      ShuffleEligibility.remoteObstacle(confWith(Tls +: settings: _*))
    val (cert, key) = ("spark.ssl.rpc.certChain", "spark.ssl.rpc.privateKey")
    val own = Seq(cert -> "/cert.pem", key -> "/key.pem")
    val inherited = Seq("spark.ssl.certChain" -> "/cert.pem", "spark.ssl.privateKey" -> "/key.pem")
    // Spark 3.5 has no TLS between its processes, whatever is configured.
    val missing = Some(Reason.RpcEncryption).filterNot(_ => SPARK_VERSION.startsWith("3."))
    Seq(
      Nil,
      inherited,
      Seq(cert -> "cert.pem", key -> "key.pem"),
      own :+ ("spark.ssl.rpc.privateKeyPassword" -> "word")).foreach { settings =>
      assertEquals(missing, obstacle(settings), s"$settings")
    }
    Seq(Seq(Named), own, inherited :+ ("spark.ssl.enabled" -> "true")).foreach { settings =>
      assertEquals(None, obstacle(settings), s"$settings")
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
