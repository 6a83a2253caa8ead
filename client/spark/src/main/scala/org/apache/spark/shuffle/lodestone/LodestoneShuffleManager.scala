// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.{ShuffleDependency, SparkConf, SparkEnv, TaskContext}
import org.apache.spark.scheduler.LiveListenerBus
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Mode, ServiceSource}
import org.apache.spark.shuffle.lodestone.driver.DriverCoordinator
import org.apache.spark.shuffle.lodestone.executor.embedded.HostService
import org.apache.spark.shuffle.lodestone.executor.fetch._
import org.apache.spark.shuffle.lodestone.executor.fetch.remote.RemoteReads
import org.apache.spark.shuffle.lodestone.executor.link.{PlanCache, RpcDriverLink}
import org.apache.spark.shuffle.lodestone.executor.push._
import org.apache.spark.shuffle.lodestone.executor.push.records.{MapWriters, RecordCounts}
import org.apache.spark.shuffle.lodestone.executor.push.remote.RemoteWrites
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.Application
import org.apache.spark.shuffle.sort.{BypassMergeSortShuffleHandle, SortShuffleManager}

/**
 * The value of `spark.shuffle.manager`. The class of a handle says what Lodestone does with its
 * shuffle: [[OwnHandle]]. Spark creates this object before there is a SparkEnv, so everything else
 * is created at its first use. In local mode one object serves the driver and the executor.
 */
private[spark] final class LodestoneShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends SortShuffleManager(conf) {
  import LodestoneShuffleManager._

  // A wrong setting stops the application at its start, and not in its first shuffle.
  if (isDriver && LodestoneConf(conf).mode == Mode.Remote) RemoteDefaults(conf)

  private val coordinator = new OnDemand[DriverCoordinator]
  private val executor = new OnDemand[ExecutorSide]
  private val counting = new OnDemand[LocalSide]
  private val writers = new OnDemand[MapWriters]

  private val hasSparksFiles = ShuffleEligibility.keepsWrittenBytes(conf)

  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = {
    val inner =
      super.registerShuffle(shuffleId, dependency).asInstanceOf[BaseShuffleHandle[K, V, C]]
    val listeners = dependency.rdd.sparkContext.listenerBus
    val driver = coordinator.get(coordinated(listeners))
    val numMaps = dependency.rdd.getNumPartitions
    val numPartitions = dependency.partitioner.numPartitions
    driver.obstacle(dependency) match {
      case Some(reason) =>
        val isWrittenHere = DriverCoordinator.isWrittenHere(reason)
        val format =
          if (isWrittenHere) driver.formatOf(dependency, inner) else BlockFormat.SparkStream
        driver.leftToSpark(shuffleId, numMaps, numPartitions, reason, format)
        if (isWrittenHere) new LocalHandle(inner, numMaps, format) else inner
      case None =>
        val format = driver.formatOf(dependency, inner)
        driver.registered(shuffleId, numMaps, numPartitions, format)
        new LodestoneHandle(inner, numMaps, driver.app, driver.isRemote, format)
    }
  }

  override def getWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = handle match {
    case remote: LodestoneHandle[K @unchecked, V @unchecked, _] if remote.isRemote =>
      executorSide(remote.app).writes
        .writer[K, V](remote, mapId, context, metrics)
        .getOrElse(leftWriter(remote, mapId, context, metrics))
    case merging: LodestoneHandle[K @unchecked, V @unchecked, _] =>
      val side = executorSide(merging.app)
      keepingWriter(merging, mapId, context, metrics) { (lengths, records) =>
        side.pusher.push(MapOutput(
          generationOf(merging),
          context.partitionId(),
          mapId,
          lengths,
          records,
          () => shuffleBlockResolver.getDataFile(merging.shuffleId, mapId)))
      }
    case local: LocalHandle[K @unchecked, V @unchecked, _] =>
      keepingWriter(local, mapId, context, metrics)((_, _) => ())
    case plain => sparksWriter(SparkHandle.checked(plain), mapId, context, metrics)
  }

  /** Returns a writer of an output of mode remote that no service takes. */
  private def leftWriter[K, V](
      handle: LodestoneHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    if (handle.format == BlockFormat.SparkStream) {
      sparksWriter(handle.inner, mapId, context, metrics)
    } else {
      reportingWriter(handle, mapId, context, metrics)((_, _) => ())
    }

  private def sparksWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = handle match {
    case _: BypassMergeSortShuffleHandle[_, _] if hasSparksFiles =>
      val written = new WrittenBytes(metrics)
      new WholeOutputWriter(super.getWriter[K, V](handle, mapId, context, written), written)
    case _ => super.getWriter[K, V](handle, mapId, context, metrics)
  }

  /**
   * Returns a writer of an output that the executor keeps. As soon as the output is written, its
   * numbers of records are reported to the driver, if Lodestone has written it.
   */
  private def keepingWriter[K, V](
      handle: OwnHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter)(
      committed: (Array[Long], Option[RecordCounts]) => Unit): ShuffleWriter[K, V] =
    reportingWriter(handle, mapId, context, metrics) { (lengths, records) =>
      localSide.counted(handle, context.partitionId(), mapId, records)
      committed(lengths, records)
    }

  /** Returns Lodestone's writer, or Spark's for what only that one writes, in its own format. */
  private def reportingWriter[K, V](
      handle: OwnHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter)(
      committed: (Array[Long], Option[RecordCounts]) => Unit): ShuffleWriter[K, V] = {
    val own = mapWriters.writer[K, V](handle.inner, handle.format, mapId, context, metrics)
    new AfterWriteShuffleWriter(
      own.getOrElse(sparksWriter[K, V](SparkHandle.of(handle), mapId, context, metrics)),
      lengths => {
        own.flatMap(_.encoded).foreach { bytes =>
          localSide.driver.report(MapEncoded(handle.shuffleId, bytes))
        }
        committed(lengths, own.map(_.counts))
      })
  }

  override def getReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = {
    val range = ReadRange(startMapIndex, endMapIndex, startPartition, endPartition)
    val task = ReduceTask(range, context, metrics)
    def plainReader(plain: ShuffleHandle): ShuffleReader[K, C] =
      super.getReader(
        plain,
        startMapIndex,
        endMapIndex,
        startPartition,
        endPartition,
        context,
        metrics)
    handle match {
      case remote: LodestoneHandle[K @unchecked, _, C @unchecked] if remote.isRemote =>
        val reads = executorSide(remote.app).remoteReads
        reads.reader[K, C](remote, task).getOrElse(plainReader(SparkHandle.of(remote)))
      case merging: LodestoneHandle[K @unchecked, _, C @unchecked] =>
        val reads = executorSide(merging.app).reads
        reads.reader[K, C](merging, task).getOrElse(plainReader(SparkHandle.of(merging)))
      case local: LocalHandle[K @unchecked, _, C @unchecked] =>
        localSide.reads.reader[K, C](local, task).getOrElse(plainReader(SparkHandle.of(local)))
      case plain => plainReader(SparkHandle.checked(plain))
    }
  }

  override def unregisterShuffle(shuffleId: Int): Boolean = {
    executor.ifMade(_.removed(shuffleId))
    counting.ifMade(_.removed(shuffleId))
    coordinator.ifMade(_.removed(shuffleId))
    writers.ifMade(_.removed(shuffleId))
    super.unregisterShuffle(shuffleId)
  }

  override def stop(): Unit = {
    executor.ifMade(_.stop())
    coordinator.ifMade(_.stop())
    super.stop()
  }

  private def coordinated(listeners: LiveListenerBus): DriverCoordinator = {
    val made = DriverCoordinator(conf, listeners)
    LodestoneReport.follow(made)
    made
  }

  private def mapWriters: MapWriters = writers.get(new MapWriters(conf, shuffleBlockResolver))

  private def executorSide(app: Application): ExecutorSide =
    executor.get(new ExecutorSide(conf, localSide, app))

  private def localSide: LocalSide = counting.get(new LocalSide(conf))
}

private[spark] object LodestoneShuffleManager {

  private def generationOf(handle: LodestoneHandle[_, _, _]): ShuffleGeneration =
    ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)

  /** The parts of an executor that the tasks of every shuffle with an [[OwnHandle]] use. */
  private final class LocalSide(conf: SparkConf) {
    val settings: LodestoneConf = LodestoneConf.onExecutor(conf)
    val driver = new RpcDriverLink(SparkEnv.get, settings, _ => ())
    val written = new WrittenRecords(driver, settings.requestTimeoutMs)
    val reads = new LocalReads(written, driver)

    /**
     * Reports a map output that was committed. The report leaves on the task's thread, so the
     * driver gets it before it learns that the task has ended, and before any reader asks for it.
     */
    def counted(
        handle: OwnHandle[_, _, _],
        mapIndex: Int,
        mapId: Long,
        records: Option[RecordCounts]): Unit =
      records.filter(_ => handle.isCounted).foreach { counted =>
        driver.report(MapCounted(handle.shuffleId, mapIndex, mapId, counted.packed))
      }

    def removed(shuffleId: Int): Unit = written.removed(shuffleId)
  }

  /** The parts that only shuffles with a [[LodestoneHandle]] use. */
  private final class ExecutorSide(conf: SparkConf, local: LocalSide, app: Application) {
    private val settings = local.settings
    private val client = new ServiceClient(app, settings.requestTimeoutMs)
    private val host = Some(settings.services).collect { case ServiceSource.Embedded =>
      new HostService(conf, settings, local.driver, SparkEnv.get)
    }
    private val driver =
      new RpcDriverLink(SparkEnv.get, settings, answer => host.foreach(_.planned(answer)))
    private def localDirs = SparkEnv.get.blockManager.diskBlockManager.localDirs.toSeq
    private val disk = new DiskSpeed(() => DiskProbe.readMicros(localDirs))
    private val buffers =
      new SegmentBuffers(settings.pushBatchSizeBytes.toInt, settings.pushMemoryBytes)
    private val plans = new PlanCache(driver)
    val pusher =
      new BlockPusher(settings, client, driver, plans, buffers, () => disk.readMicros())
    val reads = new MergedReads(client, driver, plans, local.written)
    private val retryPolicy = RetryPolicy.of(settings, client)
    val writes = new RemoteWrites(settings, client, driver, plans, buffers, retryPolicy)
    val remoteReads = new RemoteReads(client, driver, plans, retryPolicy)
    host.foreach(_.announce())

    def removed(shuffleId: Int): Unit = {
      pusher.forget(shuffleId)
      plans.forget(shuffleId)
    }

    def stop(): Unit = {
      pusher.stop()
      client.close()
    }
  }

  /** A value that is created at its first use. Unlike a lazy val it knows whether it exists. */
  private final class OnDemand[T <: AnyRef] {
    @volatile private var made: Option[T] = None

    def get(make: => T): T = made.getOrElse(synchronized {
      if (made.isEmpty) made = Some(make)
      made.get
    })

    def ifMade(use: T => Unit): Unit = made.foreach(use)
  }
}
