// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, ServiceSource}
import org.apache.spark.shuffle.lodestone.executor.embedded.HostService
import org.apache.spark.shuffle.lodestone.executor.fetch._
import org.apache.spark.shuffle.lodestone.executor.fetch.remote.RemoteReads
import org.apache.spark.shuffle.lodestone.executor.link.{PlanCache, RpcDriverLink}
import org.apache.spark.shuffle.lodestone.executor.push._
import org.apache.spark.shuffle.lodestone.executor.push.remote.RemoteWrites
import org.apache.spark.shuffle.lodestone.plan.{MapCounted, OwnHandle}
import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.Application

/** The parts of an executor that the tasks of every shuffle with an [[OwnHandle]] use. */
private[lodestone] final class LocalSide(conf: SparkConf) {
  val settings: LodestoneConf = LodestoneConf.onExecutor(conf)
  val driver = new RpcDriverLink(SparkEnv.get, settings, _ => ())
  val written = new WrittenRecords(driver, settings.requestTimeoutMs)
  val reads = new LocalReads(written, driver)

  /**
   * Reports a map output that was committed. The report leaves on the task's thread, so the driver
   * gets it before it learns that the task has ended, and before any reader asks for it.
   */
  def counted(
      handle: OwnHandle[_, _, _],
      mapIndex: Int,
      mapId: Long,
      numbers: => Option[PackedLongs]): Unit =
    if (handle.isCounted) {
      numbers.foreach(some => driver.report(MapCounted(handle.shuffleId, mapIndex, mapId, some)))
    }

  def removed(shuffleId: Int): Unit = written.removed(shuffleId)
}

/** The parts that only shuffles use whose handle is a `LodestoneHandle`. */
private[lodestone] final class ExecutorSide(conf: SparkConf, local: LocalSide, app: Application) {
  private val settings = local.settings
  private val client = ServiceClient(conf, settings, app)
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
