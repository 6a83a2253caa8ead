// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.File
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.DriverCoordinator
import org.apache.spark.shuffle.lodestone.executor.link.RpcDriverLink
import org.apache.spark.shuffle.lodestone.plan.{DriverMessage, GetReadPlan, GetPlan, MapPushed}
import org.apache.spark.shuffle.lodestone.plan.{MapSample, NoPlan, OwnClasses, PlanAnswer}
import org.apache.spark.shuffle.lodestone.plan.{PushCounts, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{Ledger, MapRange, RefusedException, Segment, Status}
import org.apache.spark.util.RpcUtils

/** Driver, executor side and the real daemon in embedded mode, without Spark's shuffle on top. */
class HostServiceSuite {
  private val id = ShuffleGeneration(1, 0)
  private val seen = MapSample(1, 8, 80, -1)

  private def await[T](future: Future[T]): T = Await.result(future, 30.seconds)

  private def daemonBinary(): String = {
    val binary = new File(System.getProperty("lodestone.binary"))
    require(binary.canExecute, s"$binary is missing: run `make build` first")
    binary.getPath
  }

  private def withSpark(dir: Path, binary: String)(body: SparkConf => Unit): Unit = {
    val conf = new SparkConf(false)
      .setMaster("local[2]")
      .setAppName("embedded")
      .set("spark.ui.enabled", "false")
      .set("spark.driver.host", "127.0.0.1")
      .set("spark.local.dir", dir.toString)
      .set("spark.lodestone.embedded.binary", binary)
      .set("spark.lodestone.mode", "merge")
      .set("spark.lodestone.embedded.memory", "64m")
      .set("spark.lodestone.embedded.idleTimeout", "1s")
    val context = new SparkContext(conf)
    try body(SparkEnv.get.conf)
    finally context.stop()
  }

  private def ask(message: DriverMessage): PlanAnswer = {
    val env = SparkEnv.get
    val driver = RpcUtils.makeDriverRef(DriverMessage.Endpoint, env.conf, env.rpcEnv)
    val answer = await(driver.ask[Any](message))
    new OwnClasses(env.conf).read(answer).asInstanceOf[PlanAnswer]
  }

  /** Returns the segments of the map at the service. */
  private def push(client: ServiceClient, service: ServiceLocation, mapIndex: Int): Ledger = {
    val block = "some bytes".getBytes(UTF_8)
    val checksum = crc32c(block)
    val segments = Array(Segment(3, block.length, -1, checksum))
    val body = new NioManagedBuffer(ByteBuffer.wrap(block))
    val reply = await(client.pushBatch(service, id, mapIndex, mapIndex + 100L, segments, body)(()))
    assertEquals(Seq(Status.Ok), reply.statuses.toSeq)
    Ledger.of(mapIndex, mapIndex + 100L, segments.head)
  }

  /** The table-less form; a few bytes only. */
  private def crc32c(bytes: Array[Byte]): Int = ~bytes.foldLeft(-1) { (sum, byte) =>
    (0 until 8).foldLeft(sum ^ (byte & 0xff)) { (crc, _) =>
      if ((crc & 1) != 0) (crc >>> 1) ^ 0x82f63b78 else crc >>> 1
    }
  }

  private def coordinatorOf(conf: SparkConf): DriverCoordinator =
    DriverCoordinator(conf, SparkContext.getActive.get)

  private def daemonOf(dir: Path): ReadyLine = {
    val home = dir.toFile.listFiles((_, name) => name.startsWith("lodestone-")).head
    val file = home.listFiles((_, name) => name.endsWith(".announce")).head
    ReadyLine.parse(new String(Files.readAllBytes(file.toPath), UTF_8).trim).get
  }

  @Test def `a shuffle lives from its plan to its removal on the daemon of this host`(
      @TempDir dir: Path): Unit = {
    var daemon: ReadyLine = null
    withSpark(dir, daemonBinary()) { conf =>
      val coordinator = coordinatorOf(conf)
      val client = new ServiceClient(coordinator.app, 5000)
      coordinator.registered(1, numMaps = 2, numPartitions = 8)
      hostService(conf).announce()
      val service = ask(GetPlan(1, 0, Some(seen))).asInstanceOf[ShufflePlan].services.head
      daemon = daemonOf(dir)
      assertEquals(daemon.incarnation, service.incarnation)
      (0 until 2).foreach { mapIndex =>
        val pushed = push(client, service, mapIndex)
        await(client.commitMap(service, id, mapIndex, mapIndex + 100L, pushed))
        val env = SparkEnv.get
        RpcUtils
          .makeDriverRef(DriverMessage.Endpoint, env.conf, env.rpcEnv)
          .send(MapPushed(id, mapIndex, mapIndex + 100L, PushCounts(1, 10, 1, Map.empty)))
      }
      val result = ask(GetReadPlan(1, 0)).asInstanceOf[ShufflePlan]
      assertEquals(Seq(service), result.services.toSeq)
      val layout = await(client.layout(service, id, MapRange.All, Array(3), 2)).partitions.head
      assertEquals(Seq(0, 1), layout.runs.flatMap(_.segments).map(_.mapIndex).toSeq.sorted)
      coordinator.removed(1)
      val refusal = refusalOf(client, service)
      assertEquals(Status.UnknownShuffle, refusal)
      client.close()
      coordinator.stop()
    }
    ForeignProcess.awaitEnd(daemon.pid)
  }

  private def hostService(conf: SparkConf): HostService = {
    val settings = LodestoneConf(conf)
    val driver = new RpcDriverLink(SparkEnv.get, settings, _ => ())
    new HostService(conf, settings, driver, SparkEnv.get)
  }

  /** Returns the answer of the service after the removal, which is one-way, has arrived. */
  private def refusalOf(client: ServiceClient, service: ServiceLocation): Status = {
    val deadline = System.nanoTime() + 10000000000L
    var refusal: Option[Status] = None
    while (refusal.isEmpty) {
      assertTrue(System.nanoTime() < deadline, "the shuffle was not removed from the service")
      refusal = Await.ready(
        client.layout(service, id, MapRange.All, Array(3), 2),
        30.seconds).value.get.failed
        .toOption
        .collect { case refused: RefusedException => refused.status }
    }
    refusal.get
  }

  @Test def `a daemon that was killed is started again by the executor that misses it in a plan`(
      @TempDir dir: Path): Unit = withSpark(dir, daemonBinary()) { conf =>
    val coordinator = coordinatorOf(conf)
    val host = hostService(conf)
    val driver = new RpcDriverLink(SparkEnv.get, LodestoneConf(conf), host.planned)
    def planOf(shuffleId: Int): PlanAnswer = {
      coordinator.registered(shuffleId, numMaps = 2, numPartitions = 8)
      await(driver.ask(GetPlan(shuffleId, 0, Some(seen))))
    }
    host.announce()
    val first = planOf(1).asInstanceOf[ShufflePlan].services.head
    val killed = daemonOf(dir)
    ProcessHandle.of(killed.pid).ifPresent(process => { process.destroyForcibly(); () })
    ForeignProcess.awaitEnd(killed.pid)
    val deadline = System.nanoTime() + 10000000000L
    val next = Iterator.from(2).map(planOf).collectFirst {
      case plan: ShufflePlan => plan.services.head
      case _ if System.nanoTime() > deadline => fail[ServiceLocation]("no daemon was started again")
    }
    assertEquals(daemonOf(dir).incarnation, next.get.incarnation)
    assertNotEquals(first.incarnation, next.get.incarnation)
    coordinator.stop()
  }

  @Test def `a host that cannot start a daemon says so and the shuffle is left to Spark`(
      @TempDir dir: Path): Unit = withSpark(dir, "/nowhere/lodestone") { conf =>
    val coordinator = coordinatorOf(conf)
    coordinator.registered(1, 2, 8)
    hostService(conf).announce()
    val started = System.nanoTime()
    assertEquals(NoPlan(Reason.NoService), ask(GetPlan(1, 0, Some(seen))))
    assertTrue(System.nanoTime() - started < 8000000000L, "the plan waited for the host in vain")
    coordinator.stop()
  }
}
