// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.{BufferedReader, File, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.{Callable, CyclicBarrier, Executors, TimeUnit}

import org.junit.jupiter.api.{AfterEach, Tag, Test}
import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.{HostPort, LodestoneConf}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.Application

/** The real daemon (system property `lodestone.binary`), found and started as executors do. */
@Tag("seldom")
class HostDaemonSuite {
  import HostDaemonSuite._

  private var clients = List.empty[ServiceClient]

  @AfterEach def disconnect(): Unit = {
    clients.foreach(_.close())
    clients = Nil
  }

  private def connected(): ServiceClient = {
    val client = newClient()
    synchronized(clients ::= client)
    client
  }

  /** The announced daemon below this directory, once it serves. */
  private def announced(dir: Path): ReadyLine = {
    val home = dir.resolve("lodestone-me").toFile
    val files = home.listFiles((_, name) => name.endsWith(".announce"))
    assertEquals(1, files.length, "one daemon, one announcement")
    ReadyLine.parse(new String(Files.readAllBytes(files.head.toPath), UTF_8).trim).get
  }

  @Test def `many executors that start at once share one daemon`(@TempDir dir: Path): Unit = {
    val count = 6
    val start = new CyclicBarrier(count)
    val threads = Executors.newFixedThreadPool(count)
    try {
      val all = (1 to count).map { _ =>
        val executor: Callable[HostPort] = () => {
          val client = connected()
          start.await(20, TimeUnit.SECONDS)
          hostDaemon(dir, client).findOrStart()
        }
        threads.submit(executor)
      }
      val addresses = all.map(_.get(40, TimeUnit.SECONDS)).distinct
      assertEquals(1, addresses.size, addresses.toString)
      assertEquals(addresses.head.port, announced(dir).listen.port)
    } finally {
      threads.shutdownNow()
    }
    val line = announced(dir)
    disconnect()
    ForeignProcess.awaitEnd(line.pid)
  }

  @Test def `a daemon that runs is found and none is started`(@TempDir dir: Path): Unit = {
    val first = hostDaemon(dir, connected()).findOrStart()
    val line = announced(dir)
    assertEquals(first, hostDaemon(dir, connected()).findOrStart())
    assertEquals(line, announced(dir))
    disconnect()
    ForeignProcess.awaitEnd(line.pid)
  }

  @Test def `after a crash a new daemon is started in its place`(@TempDir dir: Path): Unit = {
    hostDaemon(dir, connected()).findOrStart()
    val first = announced(dir)
    ForeignProcess.kill(first.pid)
    hostDaemon(dir, connected()).findOrStart()
    val second = announced(dir)
    assertNotEquals(first.incarnation, second.incarnation)
    disconnect()
    ForeignProcess.awaitEnd(second.pid)
  }

  @Test def `the daemon survives the kill of its starter and ends when it is idle`(
      @TempDir dir: Path): Unit = {
    val java = Paths.get(System.getProperty("java.home"), "bin", "java").toString
    val starter = new ProcessBuilder(
      java,
      "-cp",
      System.getProperty("java.class.path"),
      s"-Dlodestone.binary=${binary.getPath}",
      "org.apache.spark.shuffle.lodestone.executor.embedded.DaemonStarter",
      dir.toString).redirectError(dir.resolve("starter.log").toFile).start()
    val out = new BufferedReader(new InputStreamReader(starter.getInputStream, UTF_8))
    val address = HostPort.parse(String.valueOf(out.readLine())).get
    val line = announced(dir)
    // Connected before the kill, because its idle time in this test is short for a slow machine.
    val client = connected()
    assertEquals(Right(line.incarnation), HostService.incarnationAt(client)(address))
    starter.destroyForcibly()
    assertTrue(starter.waitFor(10, TimeUnit.SECONDS))
    assertEquals(Right(line.incarnation), HostService.incarnationAt(connected())(address))
    assertEquals(line.pid, ForeignProcess.session(line.pid), "it is in a session of its own")
    disconnect()
    ForeignProcess.awaitEnd(line.pid)
    assertEquals(0, leftovers(dir).length, "it left data behind")
  }

  /** The directories that the daemon made for its data. */
  private def leftovers(dir: Path): Array[File] =
    dir.resolve("lodestone-me").toFile.listFiles { (_: File, name: String) =>
      name.startsWith("lodestone-")
    }
}

private[embedded] object HostDaemonSuite {
  def binary: File = new File(System.getProperty("lodestone.binary"))

  def newClient(): ServiceClient = new ServiceClient(Application("app", -1), 8000)

  def hostDaemon(dir: Path, client: ServiceClient): HostDaemon = {
    require(binary.canExecute, s"$binary is missing: run `make build` first")
    val conf = LodestoneConf(
      new SparkConf(false)
        .set("spark.lodestone.embedded.binary", binary.getPath)
        .set("spark.lodestone.embedded.memory", "64m")
        .set("spark.lodestone.embedded.idleTimeout", "1s"))
    new HostDaemon(
      conf,
      Seq(dir),
      "me",
      "127.0.0.1",
      address => HostService.incarnationAt(client)(address))
  }
}

/** A JVM that starts a daemon, prints its address, and waits for its kill. */
private[embedded] object DaemonStarter {
  def main(arguments: Array[String]): Unit = {
    val client = HostDaemonSuite.newClient()
    println(HostDaemonSuite.hostDaemon(Paths.get(arguments(0)), client).findOrStart())
    Thread.currentThread().join()
  }
}
