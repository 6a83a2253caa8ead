// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.UUID
import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicBoolean

import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.{Duration, MILLISECONDS}

import org.apache.spark.{MapOutputTrackerMaster, ShuffleDependency, SparkConf, SparkContext}
import org.apache.spark.SparkEnv
import org.apache.spark.internal.config.EVENT_LOG_ENABLED
import org.apache.spark.shuffle.BaseShuffleHandle
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged, Mode, ServiceSource}
import org.apache.spark.shuffle.lodestone.driver.counts.MapCounts
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.loss._
import org.apache.spark.shuffle.lodestone.driver.plans._
import org.apache.spark.shuffle.lodestone.driver.report._
import org.apache.spark.shuffle.lodestone.driver.services._
import org.apache.spark.shuffle.lodestone.plan.{
  BlockFormat,
  DriverMessage,
  OwnClasses,
  ReadSize,
  Reason,
  ShuffleEligibility,
  ShufflePlan,
  SqlExtensions,
  SqlRows,
  TaskHosts
}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.Application
import org.apache.spark.storage.BlockManagerId
import org.apache.spark.util.Utils

/**
 * Creates and joins the parts of the driver side. Calls of the shuffle manager and messages of
 * executors become events of the loop.
 */
private[spark] final class DriverCoordinator private (
    conf: SparkConf,
    env: SparkEnv,
    context: SparkContext,
    clockNs: () => Long) extends Logged {
  import DriverCoordinator._

  private val settings = LodestoneConf(conf)
  private val listeners = context.listenerBus
  private val loop = new EventLoop(clockNs)
  private val lookups = new Lookups(loop)

  /** The name of this application at services. Executors get it with each handle. */
  val app: Application =
    ServiceClient.applicationOf(conf, UUID.randomUUID().getLeastSignificantBits)
  private val client = ServiceClient(conf, settings, app)
  private val report = new DriverReport
  private val counts = new MapCounts
  private val source = addressSource()
  private val directory = new ServiceDirectory(source, client, loop)
  private val reports =
    new ReportSender(() => report.changes, () => reportOf(MaxShufflesReported), client, loop)
  private val events = new ReportEvents(
    report,
    ReportJson.node(conf.getAppId, report, directory.all, _),
    listeners,
    loop)
  private val atEnd =
    new LastReport(
      events,
      () => context.eventLogger,
      LastReport.mostMs(conf),
      () => loop.nowMs)
  private val removals = new Removals(client, loop)
  private val leases =
    new LeaseKeeper(
      settings,
      directory,
      client,
      reports,
      heardOf(_),
      service => shuffles.needAddress(service.address),
      loop)
  private val claims =
    new LossClaims(
      settings,
      client,
      () => lookups.inTime(executors().map(_.size)(loop.context), Int.MaxValue),
      loop)
  private val shuffles = new Shuffles(claims.forget, removals, report)
  private val choice = new MergeChoice(settings)
  private val registrar = new ServiceRegistrar(directory, leases, client, loop)
  private val readers = new Readers(settings, shuffles, removals, report, loop)
  private val planner =
    new Planner(
      shuffles,
      choice,
      directory,
      registrar,
      removals,
      readers,
      report,
      nearHosts,
      loop)
  private val outputs =
    new LostOutputs(shuffles, claims, directory, report, () => tracker, killTask, loop)
  private val drainedServices: DrainedServices =
    new DrainedServices(shuffles, outputs, directory, client, removals, loop)
  private val taskEnds =
    new MapTaskEnds(new FailedAttempts(shuffles, client, () => tracker, loop), loop)
  private val endpoint = env.rpcEnv.setupEndpoint(
    DriverMessage.Endpoint,
    new DriverEndpoint(
      env.rpcEnv,
      loop,
      planner,
      readers,
      outputs,
      directory,
      Some(source).collect { case hosts: EmbeddedHosts => hosts },
      counts,
      report,
      new OwnClasses(conf)))
  private val metrics = new DriverMetrics(report)
  private val plainNotice = new PlainNotice(conf)
  private val firstNotice = new FirstShuffleNotice(settings.mode, settings.services)
  private val stopped = new AtomicBoolean()

  env.metricsSystem.registerSource(metrics)
  JarNotice(conf).foreach(log.warn)
  EngineNotice(conf).foreach { notice =>
    log.warn(notice)
    loop.post(report.noted(Reason.EngineShuffleOff))
  }

  private def heardOf(service: Service): Unit = {
    removals.heardOf(service.location)
    if (service.load.exists(_.draining)) drainedServices.drained(service)
  }

  @volatile private var lastReport: Option[String] = None

  /** True if shuffles that are not left to Spark are remote, false if they may be merged. */
  val isRemote: Boolean = settings.mode == Mode.Remote

  // Spark registers a shuffle before it submits its stage, so no end of a task is missed.
  listeners.addToSharedQueue(taskEnds)
  report.changed = () => events.changed()
  listeners.addToSharedQueue(events)
  if (conf.get(EVENT_LOG_ENABLED)) listeners.addToEventLogQueue(atEnd)

  /**
   * Returns the reason why the shuffle is left to Spark or to an engine, if it is known before it
   * begins.
   *
   * @param frames
   *   the format of its blocks if an engine writes it
   */
  def obstacle(
      dependency: ShuffleDependency[_, _, _],
      frames: Option[BlockFormat.EngineFrames] = None): Option[Reason] =
    if (isRemote) {
      ShuffleEligibility.remoteObstacle(conf, frames)
    } else {
      ShuffleEligibility.obstacle(conf, dependency, frames).orElse {
        choice.obstacle(dependency.rdd.getNumPartitions, dependency.partitioner.numPartitions)
      }
    }

  /** Chooses the format of the blocks of a shuffle that Lodestone writes and reads. */
  def formatOf(
      dependency: ShuffleDependency[_, _, _],
      sparks: BaseShuffleHandle[_, _, _]): BlockFormat = {
    val possible =
      if (settings.encodedRows) BlockFormat.of(conf, dependency, sparks)
      else BlockFormat.SparkStream
    // Nobody reads outputs directly that services have.
    if (isRemote || possible == BlockFormat.SparkStream || ShuffleOrigin.isSparksOwn) possible
    else BlockFormat.SparkStream
  }

  /** True if the tasks that read the shuffle may get hosts. */
  def hasNearReads(dependency: ShuffleDependency[_, _, _]): Boolean =
    settings.nearReads && SqlExtensions.isIn(conf) &&
      SqlRows.areReadAdaptively(dependency.serializer)

  /**
   * Adds a shuffle that may be merged, or that is remote in mode remote.
   *
   * @param isRepeatable
   *   false if maps that run again may write other records
   */
  def registered(
      shuffleId: Int,
      numMaps: Int,
      numPartitions: Int,
      format: BlockFormat = BlockFormat.SparkStream,
      hasNearReads: Boolean = false,
      isRepeatable: Boolean = true): Unit = loop.post {
    firstNotice(shuffleId).foreach(log.info)
    report.registered(shuffleId, numMaps, numPartitions, format)
    shuffles.add(
      new Shuffle(
        shuffleId,
        numMaps,
        numPartitions,
        !isRemote,
        settings.replicas,
        format,
        hasNearReads,
        isRepeatable))
    if (!isRemote) counts.registered(shuffleId, numMaps, numPartitions, format.numberBytes)
  }

  /** Adds a shuffle that uses no service. */
  def leftToSpark(
      shuffleId: Int,
      numMaps: Int,
      numPartitions: Int,
      reason: Reason,
      format: BlockFormat = BlockFormat.SparkStream): Unit = loop.post {
    plainNotice(shuffleId, reason).foreach(log.warn)
    report.leftToSpark(shuffleId, numMaps, numPartitions, reason, format)
    if (isWrittenHere(reason, format)) {
      counts.registered(shuffleId, numMaps, numPartitions, format.numberBytes)
    }
  }

  def removed(shuffleId: Int): Unit = loop.post {
    counts.removed(shuffleId)
    shuffles.removed(shuffleId)
    report.removed(shuffleId)
  }

  /**
   * Returns the hosts where the tasks of these reads of a shuffle should run, if they gain. The
   * thread of a query waits for it.
   */
  def hostsFor(shuffleId: Int, reads: Seq[ReadSize]): Option[TaskHosts] =
    // The class of the extension may stand in the configuration with the key off.
    if (settings.nearReads) placed(shuffleId, reads) else None

  private def placed(shuffleId: Int, reads: Seq[ReadSize]): Option[TaskHosts] = {
    val found = Promise[Option[(ShufflePlan, Int, Double)]]()
    loop.post {
      found.trySuccess(for {
        shuffle <- shuffles.find(shuffleId)
        plan <- shuffle.readPlan
      } yield (plan, shuffle.numMaps, report.sizePerByte(shuffleId)))
    }
    try {
      Await.result(found.future, Duration(HostsTimeoutMs, MILLISECONDS)).flatMap {
        case (plan, numMaps, sizePerByte) =>
          new NearHosts(plan, numMaps, coresByHost(), shuffleId, sizePerByte).of(reads)
      }
    } catch {
      // The event loop is busy, or has ended. The tasks run anywhere.
      case _: TimeoutException => None
    }
  }

  /** Ends the application at the services. Waits for their answers for a limited time. */
  def stop(): Unit = if (stopped.compareAndSet(false, true)) {
    listeners.removeListener(taskEnds)
    listeners.removeListener(events)
    listeners.removeListener(atEnd)
    env.rpcEnv.stop(endpoint)
    env.metricsSystem.removeSource(metrics)
    val ended = Promise[Unit]()
    loop.post {
      lastReport = Some(reportOf(Int.MaxValue))
      log.info(report.farewell + whereReasonsAre)
      val sent = reports.sendLast()
      ended.completeWith(leases.endAll().flatMap(_ => sent)(loop.context))
    }
    try {
      Await.ready(ended.future, Duration(StopTimeoutMs, MILLISECONDS))
    } catch {
      case _: TimeoutException =>
        log.warn(
          "Some services did not confirm the end of the application. They remove its data when " +
            "its lease expires")
    }
    loop.stop()
    lookups.stop()
    client.close()
  }

  private def whereReasonsAre: String =
    if (reports.keeperNames.isEmpty) ""
    else {
      "; while its services run, this prints the reasons: lodestone explain " +
        s"${conf.getAppId} --service ${reports.keeperNames.mkString(",")}"
    }

  private def reportOf(shuffles: Int): String =
    ReportJson(conf.getAppId, report, directory.all, shuffles)

  /** Returns the report, for `LodestoneReport`. Any thread may call it. */
  private[lodestone] def json(): Future[String] = {
    val answer = Promise[String]()
    loop.post(answer.trySuccess(reportOf(Int.MaxValue)))
    lastReport.map(Future.successful).getOrElse(answer.future)
  }

  /** Completes when no more reports are on their way, as far as the driver knows. */
  private[lodestone] def quiet(): Future[Unit] = {
    val reached = Promise[Unit]()
    def look(before: Long): Unit =
      if (report.changes == before && !shuffles.all.exists(isOpen)) {
        reached.trySuccess(())
      } else {
        val now = report.changes
        loop.later(QuietMs)(look(now))
      }
    loop.post(look(NeverSeen))
    if (lastReport.isDefined) Future.unit else reached.future
  }

  /** True if map tasks or readers of the shuffle wait, or map tasks push. */
  private def isOpen(shuffle: Shuffle): Boolean =
    shuffle.isPlanning ||
      (shuffle.keepsOriginals && shuffle.pushes.areOpen(shuffle.isPlanned))

  /** Kills a task as the UI does, so that Spark does not count its end as a failure. */
  private def killTask(taskId: Long, reason: String): Unit = {
    context.killTaskAttempt(taskId, interruptThread = false, reason)
    ()
  }

  private def tracker: MapOutputTrackerMaster =
    env.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]

  private def addressSource(): AddressSource = settings.services match {
    case ServiceSource.Embedded => new EmbeddedHosts(() => executorHosts(), loop)
    case ServiceSource.Listed(addresses) => new ListedAddresses(addresses)
    case ServiceSource.Dns(name, port) => new DnsAddresses(name, port, lookups.names, loop)
  }

  /**
   * Returns the hosts of executors. Embedded services are on such hosts in any case, so only near
   * reads need their names.
   */
  private def nearHosts(of: Shuffle): Future[Set[String]] = settings.services match {
    case ServiceSource.Embedded if !of.hasNearReads => Future.successful(Set.empty)
    case _ => lookups.inTime(executorHosts().map(_.toSet)(loop.context), Set.empty[String])
  }

  /** Returns the cores of executors, which Spark's listener of executors counts. */
  private def coresByHost(): Map[String, Int] = {
    val executors = context.statusStore.executorList(true)
    executors.filterNot(_.id == SparkContext.DRIVER_IDENTIFIER).groupBy { executor =>
      Utils.parseHostPort(executor.hostPort)._1
    }.map { case (host, all) => host -> math.max(1, all.map(_.totalCores).sum) }
  }

  private def executorHosts(): Future[Seq[String]] =
    executors().map(_.map(_.host).distinct)(loop.context)

  /** Returns the executors on which tasks can run now. The block manager's master knows them. */
  private def executors(): Future[Seq[BlockManagerId]] = {
    val isLocal = conf.get("spark.master", "").matches("local(\\[.*\\])?")
    lookups.executors {
      env.blockManager.master.getMemoryStatus.keys.filter(isLocal || !_.isDriver).toSeq
    }
  }
}

private[spark] object DriverCoordinator {

  /** A dead service must not delay the end of an application for longer. */
  private val StopTimeoutMs = 2000L

  /** The event loop answers in microseconds. A stage need not wait if the driver is in trouble. */
  private val HostsTimeoutMs = 500L

  /** A report arrives right after its task, so after this time without one, none is on its way. */
  private val QuietMs = 300L
  private val NeverSeen = -1L

  /** About 80 KB. A service has a small part of its memory for all reports. */
  private val MaxShufflesReported = 200

  /** True if Lodestone writes the map outputs of a shuffle that has this reason. */
  def isWrittenHere(reason: Reason, format: BlockFormat): Boolean =
    reason == Reason.FewBlocks && !format.isInstanceOf[BlockFormat.EngineFrames]

  def apply(
      conf: SparkConf,
      context: SparkContext,
      clockNs: () => Long = () => System.nanoTime()): DriverCoordinator = {
    new DriverCoordinator(conf, SparkEnv.get, context, clockNs)
  }
}
