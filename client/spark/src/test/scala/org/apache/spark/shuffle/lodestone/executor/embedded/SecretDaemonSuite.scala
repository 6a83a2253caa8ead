// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.IOException
import java.nio.file.{Files, Path}
import java.nio.file.attribute.{FileTime, PosixFilePermissions}

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.SparkConf
import org.apache.spark.network.sasl.SecretKeyHolder
import org.apache.spark.shuffle.lodestone.config.{HostPort, LodestoneConf}
import org.apache.spark.shuffle.lodestone.transport.{Protection, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.Application

/** The real daemon of a host, for applications that authenticate. */
final class SecretDaemonSuite {
  @TempDir var dir: Path = _
  private var clients = List.empty[ServiceClient]

  @AfterEach def disconnect(): Unit = {
    clients.foreach(_.close())
    clients = Nil
  }

  /** Finds or starts the daemon as an executor of the application does. */
  private def daemonOf(appId: String, secret: Option[String]): HostPort = {
    val conf = new SparkConf(false)
      .set("spark.app.id", appId)
      .set("spark.authenticate", secret.isDefined.toString)
    val holder = new SecretKeyHolder {
      override def getSaslUser(app: String): String = "sparkSaslUser"
      override def getSecretKey(app: String): String = secret.orNull
    }
    val protection = Protection.of(conf, () => holder)
    val client = new ServiceClient(Application(appId, -1), 8000, protection = protection)
    clients ::= client
    val settings = LodestoneConf(
      new SparkConf(false)
        .set("spark.lodestone.embedded.binary", HostDaemonSuite.binary.getPath)
        .set("spark.lodestone.embedded.memory", "64m")
        .set("spark.lodestone.embedded.idleTimeout", "1s"))
    new HostDaemon(
      settings,
      Seq(dir),
      "me",
      "127.0.0.1",
      address => HostService.incarnationAt(client)(address),
      secret.map(new AppSecret(appId, _))).findOrStart()
  }

  private def home: Path = dir.resolve("lodestone-me")

  private def only(suffix: String): Path = {
    val found = home.toFile.listFiles((_, name) => name.endsWith(suffix))
    assertEquals(1, found.length, suffix)
    found.head.toPath
  }

  private def secretOf(appId: String): Path = only("-auth.secrets").resolve(appId)

  private def makeOld(file: Path): Unit = {
    Files.setLastModifiedTime(file, FileTime.fromMillis(0))
    ()
  }

  @Test def `applications of a user share a daemon and each has its own secret there`(): Unit = {
    val first = daemonOf("app-1", Some("one"))
    assertEquals(first, daemonOf("app-2", Some("two")))
    Seq("app-1" -> "one", "app-2" -> "two").foreach { case (app, secret) =>
      assertEquals(secret, new String(Files.readAllBytes(secretOf(app))))
      val mode = Files.getPosixFilePermissions(secretOf(app))
      assertEquals("rw-------", PosixFilePermissions.toString(mode))
    }
    val mode = Files.getPosixFilePermissions(only("-auth.secrets"))
    assertEquals("rwx------", PosixFilePermissions.toString(mode))
  }

  @Test def `applications that do not authenticate have another daemon`(): Unit =
    assertNotEquals(daemonOf("app-1", Some("one")), daemonOf("app-2", None))

  @Test def `a secret stays as long as its daemon serves and goes with the next daemon`(): Unit = {
    daemonOf("app-1", Some("one"))
    makeOld(secretOf("app-1"))
    daemonOf("app-2", Some("two"))
    assertTrue(Files.exists(secretOf("app-1")), "its daemon still serves")
    val ready = ReadyLine.parse(new String(Files.readAllBytes(only("-auth.announce"))).trim).get
    disconnect()
    ForeignProcess.awaitEnd(ready.pid)
    daemonOf("app-3", Some("three"))
    assertFalse(Files.exists(secretOf("app-1")), "nobody needs it")
    assertTrue(Files.exists(secretOf("app-2")), "it is new")
  }

  @Test def `an application id that is no file name is refused`(): Unit = {
    val files = SecretFiles.in(dir, "secrets")
    val failure = assertThrows(
      classOf[IOException],
      () => files.write(new AppSecret("../app", "one")))
    assertTrue(failure.getMessage.contains("cannot name a file"))
    assertEquals("the secret of a", new AppSecret("a", "one").toString)
  }
}
