// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions

import scala.concurrent.Await
import scala.concurrent.duration.DurationInt
import scala.util.{Failure, Success, Try}

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{SparkConf, SPARK_VERSION}
import org.apache.spark.network.netty.SparkTransportConf
import org.apache.spark.network.sasl.SecretKeyHolder
import org.apache.spark.network.shuffle.ExternalBlockStoreClient
import org.apache.spark.network.shuffle.protocol.ExecutorShuffleInfo
import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.ShuffleGeneration
import org.apache.spark.shuffle.lodestone.wire.Application

/** Handshakes of Spark's own client with a real daemon that has secrets. */
final class AuthenticatedClientSuite {
  import AuthenticatedClientSuite._

  @TempDir var directory: Path = _
  private var daemon: DaemonProcess = _
  private var clients = List.empty[ServiceClient]

  @AfterEach def stop(): Unit = {
    clients.foreach(_.close())
    daemon.kill()
  }

  private def start(more: String*): Unit = {
    val secrets = Files.createDirectories(directory.resolve("secrets"))
    Seq("app-1" -> Secret, "app-2" -> "another").foreach { case (app, secret) =>
      val file = Files.write(secrets.resolve(app), secret.getBytes(UTF_8))
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"))
    }
    val all = Seq("--secrets", secrets.toString) ++ more
    daemon = DaemonProcess.start(directory.resolve("daemon").toFile, more = all)
  }

  private def client(kind: Map[String, String], appId: String, secret: String): ServiceClient = {
    val conf = new SparkConf(false).set("spark.app.id", appId).setAll(kind)
    val app = Application.unique(appId, 7)
    val protection = Protection.of(conf, () => holderOf(secret))
    val client = new ServiceClient(app, 10000, protection = protection)
    clients ::= client
    client
  }

  private def hello(client: ServiceClient): Try[Long] =
    Try(Await.result(client.hello(HostPort(daemon.host, daemon.port)), 30.seconds).incarnation)

  private def register(client: ServiceClient): Unit = {
    val shuffle = ShuffleGeneration(3, 0)
    Await.result(client.registerShuffle(daemon.location, shuffle, 2, 2), 30.seconds)
    ()
  }

  @Test def anApplicationWithItsSecretIsServedInEachWayThatSparkHas(): Unit = {
    start()
    Kinds.foreach { case (name, kind) =>
      val own = client(kind, "app-1", Secret)
      assertEquals(Success(daemon.incarnation), hello(own), name)
      // The plugin adds a number to the id of the application.
      register(own)
    }
  }

  /** The client of 4.1.2 cannot read a second message: `test_authentication.py` runs newer ones. */
  @Test def messagesThatCannotBeChangedAreUnderstoodAndAnswered(): Unit = {
    start("--encrypted-only")
    WithGcm.foreach { case (name, kind) =>
      assertEquals(Success(daemon.incarnation), hello(client(kind, "app-1", Secret)), name)
    }
  }

  @Test def aClientWithoutTheSecretIsDeniedAndLearnsWhy(): Unit = {
    start()
    Kinds.foreach { case (name, kind) =>
      Seq("app-1" -> "wrong", "app-2" -> Secret, "app-3" -> Secret).foreach { case (app, secret) =>
        assertDenied(hello(client(kind, app, secret)), "authentication failed", s"$name of $app")
      }
    }
    val plain = client(Map.empty, "app-1", Secret)
    // The one question that needs no secret.
    assertEquals(Success(daemon.incarnation), hello(plain))
    assertDenied(Try(register(plain)), "spark.authenticate=true", "without a handshake")
  }

  @Test def whereEncryptionIsRequiredOnlyAesIsServed(): Unit = {
    start("--encrypted-only")
    Kinds.foreach { case (name, kind) =>
      val answer = hello(client(kind, "app-1", Secret))
      if (kind.contains("spark.network.crypto.enabled")) {
        assertEquals(Success(daemon.incarnation), answer, name)
      } else {
        assertDenied(answer, "spark.network.crypto.enabled=true", name)
      }
    }
  }

  @Test def aClientThatAuthenticatesWhereThereAreNoSecretsLearnsWhy(): Unit = {
    daemon = DaemonProcess.start(directory.resolve("daemon").toFile)
    Kinds.foreach { case (name, kind) =>
      assertDenied(hello(client(kind, "app-1", Secret)), "has no secrets", name)
    }
  }

  /** The plugin leaves such applications to plain Spark. Java's client ends the handshake. */
  @Test def stockSparkThatEncryptsWithSaslCannotRegisterAndWithAesItCan(): Unit = {
    start()
    val sasl = On + ("spark.authenticate.enableSaslEncryption" -> "true")
    assertDenied(Try(registerExecutor(sasl)), NoSaslEncryption, "SASL that encrypts")
    registerExecutor(sasl + ("spark.network.crypto.enabled" -> "true"))
  }

  /** As an executor of stock Spark does at its start. */
  private def registerExecutor(kind: Map[String, String]): Unit = {
    val conf = SparkTransportConf.fromSparkConf(new SparkConf(false).setAll(kind), "shuffle", 1)
    val client = new ExternalBlockStoreClient(conf, holderOf(Secret), true, 5000)
    val manager = "org.apache.spark.shuffle.sort.SortShuffleManager"
    val executor = new ExecutorShuffleInfo(Array(directory.toString), 64, manager)
    try {
      client.init("app-1")
      client.registerWithShuffleServer(daemon.host, daemon.port, "1", executor)
    } finally client.close()
  }

  private def holderOf(secret: String): SecretKeyHolder = new SecretKeyHolder {
    override def getSaslUser(app: String): String = "sparkSaslUser"
    override def getSecretKey(app: String): String = secret
  }

  private def assertDenied(answer: Try[_], words: String, what: String): Unit = answer match {
    case Failure(failure) => assertTrue(allOf(failure).contains(words), s"$what: ${allOf(failure)}")
    case Success(_) => throw new AssertionError(s"$what was served")
  }

  private def allOf(failure: Throwable): String =
    Iterator.iterate(failure)(_.getCause).takeWhile(_ != null).mkString(" <- ")
}

private object AuthenticatedClientSuite {
  private val Secret = "0123456789abcdef" * 4
  private val NoSaslEncryption = "No common protection layer between client and server"
  private val On = Map("spark.authenticate" -> "true")
  private val Aes = On + ("spark.network.crypto.enabled" -> "true")
  private val Second = "spark.network.crypto.authEngineVersion" -> "2"
  private val Gcm = "spark.network.crypto.cipher" -> "AES/GCM/NoPadding"

  private val Kinds = Seq(
    "SASL" -> On,
    "AES, version 1" -> Aes,
    "AES, version 2" -> (Aes + Second))

  /** Since Spark 4. */
  private val WithGcm = Seq(
    "AES/GCM, version 1" -> (Aes + Gcm),
    "AES/GCM, version 2" -> (Aes + Gcm + Second)).filterNot(_ => SPARK_VERSION.startsWith("3."))
}
