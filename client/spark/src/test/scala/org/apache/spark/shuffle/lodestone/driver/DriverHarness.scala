// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.TimeUnit

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt
import scala.reflect.ClassTag

import com.fasterxml.jackson.databind.ObjectMapper
import org.junit.jupiter.api.{AfterAll, AfterEach, BeforeAll, TestInstance}
import org.junit.jupiter.api.TestInstance.Lifecycle

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.rpc.{RpcEndpoint, RpcEnv}
import org.apache.spark.scheduler.LiveListenerBus
import org.apache.spark.shuffle.lodestone.LodestoneReport
import org.apache.spark.shuffle.lodestone.plan.{DriverMessage, GetReadPlan, GetPlan, MapPushed}
import org.apache.spark.shuffle.lodestone.plan.{MapSample, NoPlan, OwnClasses, PlanAnswer}
import org.apache.spark.shuffle.lodestone.plan.{PushCounts, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.SameThread
import org.apache.spark.storage.BlockManagerId
import org.apache.spark.util.RpcUtils

/**
 * A coordinator in a real SparkContext. Tests send it the messages of executors over Spark's RPC,
 * and script the services.
 */
@TestInstance(Lifecycle.PER_CLASS)
private[driver] abstract class DriverHarness {
  private var context: SparkContext = _
  private var services = List.empty[ScriptedService]
  private var coordinators = List.empty[DriverCoordinator]
  private var executors = 0

  /** The lead of the drivers' clock. */
  @volatile private var aheadNs = 0L

  @BeforeAll def startSpark(): Unit = {
    val conf = new SparkConf(false)
      .setMaster("local[2]")
      .setAppName("driver side")
      .set("spark.ui.enabled", "false")
      .set("spark.driver.host", "127.0.0.1")
    context = new SparkContext(conf)
  }

  def spark: SparkContext = context

  /** The bus to which Spark's scheduler posts its events. */
  def listeners: LiveListenerBus = context.listenerBus

  @AfterAll def stopSpark(): Unit = context.stop()

  @AfterEach def stopDriver(): Unit = {
    coordinators.foreach(_.stop())
    services.foreach(_.close())
    coordinators = Nil
    services = Nil
    forgetExecutors()
  }

  protected def forgetExecutors(): Unit = {
    (1 to executors).foreach(i => SparkEnv.get.blockManager.master.removeExecutor(s"reader-$i"))
    executors = 0
  }

  /** Adds the block managers of executors to the driver's own. */
  def haveExecutorsOn(hosts: String*): Unit = hosts.foreach { host =>
    executors += 1
    val env = SparkEnv.get.rpcEnv
    val endpoint = env.setupEndpoint(
      s"block-manager-$executors-${System.nanoTime()}",
      new RpcEndpoint { override val rpcEnv: RpcEnv = env })
    val id = BlockManagerId(s"reader-$executors", host, 1000 + executors)
    SparkEnv.get.blockManager.master
      .registerBlockManager(id, Array.empty, 1L, 1L, endpoint, isReRegister = false)
  }

  def scripted(incarnation: Long)(script: ScriptedService.Script): ScriptedService = {
    val started = new ScriptedService(incarnation).answering(script)
    services ::= started
    started
  }

  /** The service starts again at the same address. */
  def restarted(before: ScriptedService): ScriptedService = {
    before.close()
    val started = new ScriptedService(before.incarnation, before.address.port)
    services ::= started
    started
  }

  def service(incarnation: Long): ScriptedService = scripted(incarnation)(PartialFunction.empty)

  def serviceOn(host: String): ScriptedService = {
    val started = new ScriptedService(incarnation = 1, host = host)
    services ::= started
    started
  }

  /** Merges every shuffle, unless the test needs the choice. */
  def settings(extra: (String, String)*): SparkConf =
    SparkEnv.get.conf.clone().set("spark.lodestone.mode", "merge").setAll(extra)

  /** A driver that uses these services. */
  def driver(used: Seq[ScriptedService], extra: (String, String)*): DriverCoordinator = {
    val list = "spark.lodestone.services" -> used.map(_.address).mkString(",")
    start(settings(list +: extra: _*))
  }

  def start(conf: SparkConf): DriverCoordinator = {
    val coordinator = DriverCoordinator(conf, context, () => System.nanoTime() + aheadNs)
    coordinators ::= coordinator
    LodestoneReport.follow(coordinator)
    coordinator
  }

  /** Moves the clock. */
  def pass(minutes: Int): Unit = aheadNs += TimeUnit.MINUTES.toNanos(minutes.toLong)

  private def endpoint =
    RpcUtils.makeDriverRef(DriverMessage.Endpoint, SparkEnv.get.conf, SparkEnv.get.rpcEnv)

  def send(message: DriverMessage): Unit = endpoint.send(message)

  def ask[T: ClassTag](message: DriverMessage): Future[T] =
    endpoint.ask[Any](message).map(new OwnClasses(SparkEnv.get.conf).read)(SameThread).mapTo[T]

  def await[T](future: Future[T]): T = Await.result(future, 20.seconds)

  /** Asks like an executor with these map outputs. */
  def askPlan(id: ShuffleGeneration, seen: MapSample = MapSample(1, 20, 200, -1))
      : Future[PlanAnswer] = ask[PlanAnswer](GetPlan(id.shuffleId, id.number, Some(seen)))

  def planOf(id: ShuffleGeneration): ShufflePlan = await(askPlan(id)) match {
    case plan: ShufflePlan => plan
    case other => throw new AssertionError(s"no plan but $other")
  }

  /** Asks like a reader. */
  def askReadPlan(id: ShuffleGeneration): Future[PlanAnswer] =
    ask[PlanAnswer](GetReadPlan(id.shuffleId, id.number))

  def placesOf(id: ShuffleGeneration): PlanAnswer = await(askReadPlan(id))

  def pushed(
      id: ShuffleGeneration,
      mapIndex: Int,
      blocks: Long = 2): Unit =
    send(MapPushed(id, mapIndex, mapIndex + 1000L, PushCounts(blocks, blocks * 10, 1, Map.empty)))

  /** The count of a reason in the report. */
  def reasonCount(reason: Reason): Long = {
    val reasons = new ObjectMapper().readTree(LodestoneReport.json()).at("/totals/reasons")
    reasons.path(reason.code).asLong
  }

  def noPlan(reason: Reason): NoPlan = NoPlan(reason)

  /** The shortest of several times, because the machine may be slow. */
  def fastestMs(tries: Range)(body: Int => Unit): Long =
    tries.map(attempt => timed(body(attempt))._2).min

  /** Measures the time. */
  def timed[T](body: => T): (T, Long) = {
    val start = System.nanoTime()
    val outcome = body
    (outcome, (System.nanoTime() - start) / 1000000)
  }
}
