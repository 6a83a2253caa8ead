// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.UUID
import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicBoolean

import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.{Duration, MILLISECONDS}

import org.slf4j.LoggerFactory

import org.apache.spark.{
  MapOutputTrackerMaster,
  ShuffleDependency,
  SparkConf,
  SparkContext,
  SparkEnv
}
import org.apache.spark.scheduler.LiveListenerBus
import org.apache.spark.shuffle.lodestone.{LodestoneConf, LodestoneReport, Mode, Reason}
import org.apache.spark.shuffle.lodestone.ServiceSource
import org.apache.spark.shuffle.lodestone.driver.counts.MapCounts
import org.apache.spark.shuffle.lodestone.driver.remote.{FailedAttempts, MapTaskEnds}
import org.apache.spark.shuffle.lodestone.driver.remote.RemoteShuffles
import org.apache.spark.shuffle.lodestone.driver.services._
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.Application
import org.apache.spark.storage.BlockManagerId

/**
 * The driver side, joined together: what the shuffle manager tells it becomes events of the loop,
 * as do the messages of executors.
 */
private[spark] final class DriverCoordinator private (
    conf: SparkConf,
    env: SparkEnv,
    listeners: LiveListenerBus,
    clockNs: () => Long) {
  import DriverCoordinator._

  private val log = LoggerFactory.getLogger(classOf[DriverCoordinator])
  private val settings = LodestoneConf(conf)
  private val loop = new EventLoop(clockNs)
  private val lookups = new Lookups(loop)

  /** What services call this application: executors get it with each handle. */
  val app: Application =
    ServiceClient.applicationOf(conf, UUID.randomUUID().getLeastSignificantBits)
  private val client = new ServiceClient(app, settings.requestTimeoutMs)
  private val report = new DriverReport
  private val shuffles = new ShuffleTable
  private val counts = new MapCounts
  private val source = addressSource()
  private val directory = new ServiceDirectory(source, client, loop)
  private val reports = new ReportSender(reported, client, loop)
  private val removals = new Removals(client, loop)
  private val leases =
    new LeaseKeeper(settings, directory, client, reports, heardOf(_), loop)
  private val remover = new ShuffleRemover(shuffles, removals, report)
  private val finalizer =
    new MergeFinalizer(settings, shuffles, directory, client, removals, report, loop)
  private val choice = new MergeChoice(settings)
  private val registration = new Registration(directory, leases, client, loop)
  private val registrar =
    new ShuffleRegistrar(
      shuffles,
      choice,
      directory,
      removals,
      registration,
      remover,
      finalizer,
      report,
      () => nearHosts(),
      loop)
  private val remote: RemoteShuffles =
    new RemoteShuffles(
      settings,
      directory,
      registration,
      client,
      removals,
      report,
      () => tracker,
      () => nearHosts(),
      () => lookups.inTime(executors().map(_.size)(loop.context), Int.MaxValue),
      killTask,
      loop)
  private val taskEnds =
    new MapTaskEnds(new FailedAttempts(remote, client, () => tracker, loop), loop)
  private val endpoint = env.rpcEnv.setupEndpoint(
    DriverEndpoint.Name,
    new DriverEndpoint(
      env.rpcEnv,
      loop,
      registrar,
      finalizer,
      remote,
      directory,
      Some(source).collect { case hosts: EmbeddedHosts => hosts },
      counts,
      report))
  private val metrics = new DriverMetrics(report)
  private val stopped = new AtomicBoolean()

  env.metricsSystem.registerSource(metrics)

  private def heardOf(service: Service): Unit = {
    removals.heardOf(service.location)
    if (service.load.exists(_.leaving)) remote.leaves(service)
  }

  /** The report as it was when the application ended. */
  @volatile private var lastReport: Option[String] = None

  /** Shuffles that are not left to Spark are remote, and not merged. */
  val isRemote: Boolean = settings.mode == Mode.Remote

  // Before any stage of a shuffle of ours is submitted: Spark registers the shuffle first.
  if (isRemote) listeners.addToSharedQueue(taskEnds)

  /** Why the shuffle is left to Spark, if that is known before it begins. */
  def obstacle(dependency: ShuffleDependency[_, _, _]): Option[Reason] =
    if (isRemote) {
      ShuffleEligibility.remoteObstacle(conf)
    } else {
      ShuffleEligibility.obstacle(conf, dependency).orElse {
        choice.obstacle(dependency.rdd.getNumPartitions, dependency.partitioner.numPartitions)
      }
    }

  /** The shuffle may be merged, or in mode remote be remote. */
  def registered(shuffleId: Int, numMaps: Int, numPartitions: Int): Unit = loop.post {
    report.registered(shuffleId, numMaps, numPartitions)
    if (isRemote) {
      remote.registered(shuffleId, numMaps, numPartitions)
    } else {
      shuffles.add(new ShuffleState(shuffleId, numMaps, numPartitions))
      counts.registered(shuffleId, numMaps, numPartitions)
    }
  }

  /** No service has to do with the shuffle. */
  def leftToSpark(
      shuffleId: Int,
      numMaps: Int,
      numPartitions: Int,
      reason: Reason): Unit = loop.post {
    report.leftToSpark(shuffleId, numMaps, numPartitions, reason)
    if (isWrittenHere(reason)) counts.registered(shuffleId, numMaps, numPartitions)
  }

  def removed(shuffleId: Int): Unit = loop.post {
    counts.removed(shuffleId)
    if (isRemote) remote.removed(shuffleId) else remover.removed(shuffleId)
  }

  /** Tells the services that the application is over; waits for them a moment, no longer. */
  def stop(): Unit = if (stopped.compareAndSet(false, true)) {
    if (isRemote) listeners.removeListener(taskEnds)
    env.rpcEnv.stop(endpoint)
    env.metricsSystem.removeSource(metrics)
    val ended = Promise[Unit]()
    loop.post {
      lastReport = Some(reportOf(Int.MaxValue))
      log.info(report.farewell)
      reports.holderNames.headOption.foreach { _ =>
        log.info(
          s"lodestone explain ${conf.getAppId} --service ${reports.holderNames.mkString(",")} " +
            "says why, while these services run")
      }
      val told = reports.tellEnd()
      ended.completeWith(leases.endAll().flatMap(_ => told)(loop.context))
    }
    try {
      Await.ready(ended.future, Duration(StopTimeoutMs, MILLISECONDS))
    } catch {
      case _: TimeoutException =>
        log.warn("Not every service was told that the application ended; their leases will tell")
    }
    loop.stop()
    lookups.stop()
    client.close()
  }

  private def reportOf(shuffles: Int): String =
    ReportJson(conf.getAppId, report, directory.all, shuffles)

  /** For [[LodestoneReport]], from any thread. */
  private[lodestone] def json(): Future[String] = {
    val answer = Promise[String]()
    loop.post(answer.trySuccess(reportOf(Int.MaxValue)))
    lastReport.map(Future.successful).getOrElse(answer.future)
  }

  /** Completes when nothing more is on its way, as far as the driver can tell. */
  private[lodestone] def quiet(): Future[Unit] = {
    val reached = Promise[Unit]()
    def look(before: Long): Unit =
      if (report.changes == before && !shuffles.generations.exists(_.isUnsettled)) {
        reached.trySuccess(())
      } else {
        val now = report.changes
        loop.later(QuietMs)(look(now))
      }
    loop.post(look(NeverSeen))
    if (lastReport.isDefined) Future.unit else reached.future
  }

  /** As a user does in the UI: however it ends then, it has not failed. */
  private def killTask(taskId: Long, why: String): Unit =
    SparkContext.getActive.foreach(_.killTaskAttempt(taskId, interruptThread = false, why))

  private def tracker: MapOutputTrackerMaster =
    env.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]

  private def reported: Reported = new Reported {
    override def changes: Long = report.changes
    override def text: String = reportOf(MaxShufflesTold)
  }

  private def addressSource(): AddressSource = settings.services match {
    case ServiceSource.Embedded => new EmbeddedHosts(() => executorHosts(), loop)
    case ServiceSource.Listed(addresses) => new ListedAddresses(addresses)
    case ServiceSource.Dns(name, port) => new DnsAddresses(name, port, lookups.names, loop)
  }

  /** Hosts beside which a service is better placed; an embedded one always is. */
  private def nearHosts(): Future[Set[String]] = settings.services match {
    case ServiceSource.Embedded => Future.successful(Set.empty)
    case _ => lookups.inTime(executorHosts().map(_.toSet)(loop.context), Set.empty[String])
  }

  private def executorHosts(): Future[Seq[String]] =
    executors().map(_.map(_.host).distinct)(loop.context)

  /** Where tasks can run now: the block manager's master knows them. */
  private def executors(): Future[Seq[BlockManagerId]] = {
    val isLocal = conf.get("spark.master", "").matches("local(\\[.*\\])?")
    lookups.executors {
      env.blockManager.master.getMemoryStatus.keys.filter(isLocal || !_.isDriver).toSeq
    }
  }
}

private[spark] object DriverCoordinator {

  /** The end of an application must not hang on a dead service. */
  private val StopTimeoutMs = 2000L

  /** Reports come right after their tasks: when none came for this long, none is on its way. */
  private val QuietMs = 300L
  private val NeverSeen = -1L

  /** Some 80 KB of report: a service has a small part of its memory for those of all drivers. */
  private val MaxShufflesTold = 200

  /** Whether Spark has a shuffle to itself only when it is read. */
  def isWrittenHere(reason: Reason): Boolean = reason == Reason.FewBlocks

  /** On the driver, once [[SparkEnv]] is there. */
  def apply(
      conf: SparkConf,
      listeners: LiveListenerBus,
      clockNs: () => Long = () => System.nanoTime()): DriverCoordinator = {
    val coordinator = new DriverCoordinator(conf, SparkEnv.get, listeners, clockNs)
    LodestoneReport.follow(coordinator)
    coordinator
  }
}
