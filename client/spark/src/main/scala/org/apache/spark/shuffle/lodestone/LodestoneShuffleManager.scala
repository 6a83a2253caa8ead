// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.{ShuffleDependency, SparkConf, SparkEnv, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.driver.{
  DriverCoordinator,
  RpcDriverLink,
  ShuffleGeneration
}
import org.apache.spark.shuffle.lodestone.driver.remote.{RemoteDefaults, RemotePlans}
import org.apache.spark.shuffle.lodestone.embedded.HostService
import org.apache.spark.shuffle.lodestone.fetch.{MergedReads, ReadRange}
import org.apache.spark.shuffle.lodestone.fetch.remote.RemoteReads
import org.apache.spark.shuffle.lodestone.push.{BlockPusher, DiskProbe, DiskSpeed, MapOutput}
import org.apache.spark.shuffle.lodestone.push.{CountingShuffleWriter, PushingShuffleWriter}
import org.apache.spark.shuffle.lodestone.push.RecordCounts
import org.apache.spark.shuffle.lodestone.push.records.MapWriters
import org.apache.spark.shuffle.lodestone.push.remote.RemoteWrites
import org.apache.spark.shuffle.lodestone.transport.{Patience, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.Application
import org.apache.spark.shuffle.sort.SortShuffleManager

/**
 * The value of `spark.shuffle.manager`. Map outputs are written as Spark's own writers do, and kept,
 * unless they are remote; what Lodestone adds hangs on [[LodestoneHandle]]. Spark makes this object
 * before there is a SparkEnv: all else is made when it is first needed. In local mode one object is
 * both sides.
 */
private[spark] final class LodestoneShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends SortShuffleManager(conf) {
  import LodestoneShuffleManager._

  // A wrong setting ends the application before it begins, and not in its first shuffle.
  if (isDriver && LodestoneConf(conf).mode == Mode.Remote) RemoteDefaults(conf)

  private val coordinator = new OnDemand[DriverCoordinator]
  private val executor = new OnDemand[ExecutorSide]
  private val writers = new OnDemand[MapWriters]

  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = {
    val inner =
      super.registerShuffle(shuffleId, dependency).asInstanceOf[BaseShuffleHandle[K, V, C]]
    val listeners = dependency.rdd.sparkContext.listenerBus
    val driver = coordinator.get(DriverCoordinator(conf, listeners))
    val numMaps = dependency.rdd.getNumPartitions
    val numPartitions = dependency.partitioner.numPartitions
    driver.obstacle(dependency) match {
      case Some(reason) =>
        driver.leftToSpark(shuffleId, numMaps, numPartitions, reason)
        if (reason == Reason.FewBlocks) new LocalHandle(inner) else inner
      case None =>
        driver.registered(shuffleId, numMaps, numPartitions)
        new LodestoneHandle(inner, driver.app, driver.isRemote)
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
        .getOrElse(super.getWriter(remote.inner, mapId, context, metrics))
    case merging: LodestoneHandle[_, _, _] =>
      val side = executorSide(merging.app)
      val records = RecordCounts(merging.dependency)
      val inner = mapWriters
        .writer[K, V](merging.inner, mapId, context, metrics, records)
        .getOrElse {
          val sparks = super.getWriter[K, V](merging.inner, mapId, context, metrics)
          new CountingShuffleWriter(sparks, records)
        }
      new PushingShuffleWriter(
        inner,
        lengths =>
          side.pusher.push(MapOutput(
            generationOf(merging),
            context.partitionId(),
            mapId,
            lengths,
            records,
            () => shuffleBlockResolver.getDataFile(merging.shuffleId, mapId))))
    case local: LocalHandle[_, _, _] =>
      val records = RecordCounts(local.dependency)
      mapWriters
        .writer[K, V](local.inner, mapId, context, metrics, records)
        .getOrElse(super.getWriter(local.inner, mapId, context, metrics))
    case plain => super.getWriter(SparkHandle.checked(plain), mapId, context, metrics)
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
        executorSide(remote.app).remoteReads
          .reader[K, C](remote, range, context, metrics)
          .getOrElse(plainReader(remote.inner))
      case merging: LodestoneHandle[K @unchecked, _, C @unchecked] =>
        executorSide(merging.app).reads
          .reader[K, C](merging.inner, range, context, metrics)
          .getOrElse(plainReader(merging.inner))
      case local: LocalHandle[_, _, _] => plainReader(local.inner)
      case plain => plainReader(SparkHandle.checked(plain))
    }
  }

  override def unregisterShuffle(shuffleId: Int): Boolean = {
    executor.ifMade(_.removed(shuffleId))
    coordinator.ifMade(_.removed(shuffleId))
    writers.ifMade(_.removed(shuffleId))
    super.unregisterShuffle(shuffleId)
  }

  override def stop(): Unit = {
    executor.ifMade(_.stop())
    coordinator.ifMade(_.stop())
    super.stop()
  }

  private def mapWriters: MapWriters = writers.get(new MapWriters(conf, shuffleBlockResolver))

  private def executorSide(app: Application): ExecutorSide =
    executor.get(new ExecutorSide(conf, app))
}

private[spark] object LodestoneShuffleManager {

  private def generationOf(handle: LodestoneHandle[_, _, _]): ShuffleGeneration =
    ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)

  /** What an executor needs once it has a task of a shuffle that is not left to Spark. */
  private final class ExecutorSide(conf: SparkConf, app: Application) {
    private val settings = LodestoneConf.onExecutor(conf)
    private val client = new ServiceClient(app, settings.requestTimeoutMs)
    private val host = Some(settings.services).collect { case ServiceSource.Embedded =>
      new HostService(conf, SparkEnv.get)
    }
    private val driver =
      new RpcDriverLink(SparkEnv.get, settings, answer => host.foreach(_.planned(answer)))
    private def localDirs = SparkEnv.get.blockManager.diskBlockManager.localDirs.toSeq
    private val disk = new DiskSpeed(() => DiskProbe.readMicros(localDirs))
    val pusher = new BlockPusher(settings, client, driver, () => disk.readMicros())
    val reads = new MergedReads(settings, client, driver)
    private val plans = new RemotePlans(driver)
    private val patience = Patience.of(settings, client)
    val writes = new RemoteWrites(settings, client, driver, plans, patience)
    val remoteReads = new RemoteReads(client, driver, plans, patience)
    host.foreach(_.announce())

    def removed(shuffleId: Int): Unit = {
      pusher.forget(shuffleId)
      reads.removed(shuffleId)
      plans.forget(shuffleId)
    }

    def stop(): Unit = {
      pusher.stop()
      client.close()
    }
  }

  /** Made at the first need; unlike a lazy val it can be asked whether it was. */
  private final class OnDemand[T <: AnyRef] {
    @volatile private var made: Option[T] = None

    def get(make: => T): T = made.getOrElse(synchronized {
      if (made.isEmpty) made = Some(make)
      made.get
    })

    def ifMade(use: T => Unit): Unit = made.foreach(use)
  }
}
