// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File

import org.apache.spark.{ShuffleDependency, SparkConf, SparkContext, TaskContext}
import org.apache.spark.rdd.DeterministicLevel
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Mode}
import org.apache.spark.shuffle.lodestone.driver.DriverCoordinator
import org.apache.spark.shuffle.lodestone.engine.EngineReader
import org.apache.spark.shuffle.lodestone.executor.{ExecutorSide, LocalSide}
import org.apache.spark.shuffle.lodestone.executor.fetch.{ReadRange, ReduceTask}
import org.apache.spark.shuffle.lodestone.executor.push._
import org.apache.spark.shuffle.lodestone.executor.push.records.{
  FrameOutput,
  MapWriters,
  RecordCounts
}
import org.apache.spark.shuffle.lodestone.executor.push.remote.EngineOutput
import org.apache.spark.shuffle.lodestone.executor.rows.frames.FrameDecoder
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs
import org.apache.spark.shuffle.lodestone.driver.ui.LodestoneTab
import org.apache.spark.shuffle.lodestone.wire.Application
import org.apache.spark.shuffle.sort.BypassMergeSortShuffleHandle

/**
 * All that Lodestone does with shuffles in one JVM, for the shuffle manager that holds it. The
 * class of a handle says what Lodestone does with its shuffle: [[OwnHandle]]. Spark creates
 * managers before there is a SparkEnv, so everything else is created at its first use. In local
 * mode one object serves the driver and the executor.
 *
 * @param inner
 *   the manager for all that is left to it
 */
private[lodestone] final class ShuffleCore(
    conf: SparkConf,
    isDriver: Boolean,
    inner: InnerShuffles) {
  import ShuffleCore._

  // A wrong setting stops the application at its start, and not in its first shuffle.
  if (isDriver && LodestoneConf(conf).mode == Mode.Remote) RemoteDefaults(conf)
  // Plans of an engine have nodes of its own in place of those that near reads need.
  private val mayHaveNearReads = inner.engine.isEmpty
  if (isDriver && mayHaveNearReads) SqlExtensions(conf)

  private val coordinator = new OnDemand[DriverCoordinator]
  private val executor = new OnDemand[ExecutorSide]
  private val counting = new OnDemand[LocalSide]
  private val writers = new OnDemand[MapWriters]

  private val hasSparksFiles = ShuffleEligibility.keepsWrittenBytes(conf)
  private val codec = inner.engine.map(_.codec)
  private val handles =
    new InnerHandles(inner.engine.fold(Set.empty[Class[_]])(_.handles), codec.map(_.format))

  def register[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = {
    val plain = inner.register(shuffleId, dependency)
    val driver = coordinator.get(coordinated(dependency.rdd.sparkContext))
    val numMaps = dependency.rdd.getNumPartitions
    val numPartitions = dependency.partitioner.numPartitions
    val engine = inner.engine.filter(_.handles.contains(plain.getClass))
    val frames = engine.map(_.codec.format)
    def isTaken(by: Engine) = by.withFrames.contains(plain.getClass) ||
      driver.isRemote && by.pushed.contains(plain.getClass)
    val obstacle =
      if (engine.exists(!isTaken(_))) Some(Reason.EngineShuffle)
      else driver.obstacle(dependency, frames)
    obstacle match {
      case Some(reason) =>
        val format = frames.getOrElse(BlockFormat.SparkStream)
        if (DriverCoordinator.isWrittenHere(reason, format)) {
          val own = driver.formatOf(dependency, plain)
          driver.leftToSpark(shuffleId, numMaps, numPartitions, reason, own)
          new LocalHandle(plain, numMaps, own)
        } else {
          driver.leftToSpark(shuffleId, numMaps, numPartitions, reason, format)
          plain
        }
      case None =>
        val format = frames.getOrElse(driver.formatOf(dependency, plain))
        val isNear = mayHaveNearReads && driver.hasNearReads(dependency)
        val level = dependency.rdd.outputDeterministicLevel
        val isRepeatable = level != DeterministicLevel.INDETERMINATE
        driver.registered(shuffleId, numMaps, numPartitions, format, isNear, isRepeatable)
        new LodestoneHandle(plain, numMaps, driver.app, driver.isRemote, format)
    }
  }

  def writer[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = handle match {
    case remote: LodestoneHandle[K @unchecked, V @unchecked, _] if remote.isRemote =>
      val writes = executorSide(remote.app).writes
      pusherOf(remote) match {
        case Some(engine) =>
          val push = writes.frames(remote, mapId, context, metrics)
          // Engines look at the class of their writer: no other one may be around it.
          push.map(engine.pushing[K, V](remote.inner, _, mapId, context, metrics))
            .getOrElse(innerWriter(handles.of(remote), mapId, context, metrics))
        case None =>
          def local = engines(remote, mapId, context, metrics)
          writes.writer[K, V](remote, mapId, context, metrics, local)
            .getOrElse(leftWriter(remote, mapId, context, metrics))
      }
    case merging: LodestoneHandle[K @unchecked, V @unchecked, _] =>
      val side = executorSide(merging.app)
      keepingWriter(merging, mapId, context, metrics) { (lengths, records, checksums) =>
        side.pusher.push(MapOutput(
          generationOf(merging),
          context.partitionId(),
          mapId,
          lengths,
          records,
          () => inner.resolver.getDataFile(merging.shuffleId, mapId),
          checksums))
      }
    case local: LocalHandle[K @unchecked, V @unchecked, _] =>
      keepingWriter(local, mapId, context, metrics)((_, _, _) => ())
    case plain => innerWriter(handles.checked(plain), mapId, context, metrics)
  }

  /** Returns the engine, if the map tasks of this shuffle push their frames while they run. */
  private def pusherOf(handle: LodestoneHandle[_, _, _]): Option[Engine] =
    inner.engine.filter { engine =>
      engine.codec.format == handle.format && engine.pushed.contains(handle.inner.getClass)
    }

  /** Returns the output of a map task as an engine writes it, if the blocks are its frames. */
  private def engines[K, V](
      handle: LodestoneHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): Option[EngineOutput[K, V]] =
    codec.filter(_.format == handle.format).map { frames =>
      new EngineOutput[K, V] {
        override def writer: ShuffleWriter[K, V] =
          innerWriter(handles.of(handle), mapId, context, metrics)
        override def decoder: FrameDecoder = frames.decoder(handle.dependency)
        override def file: File = inner.resolver.getDataFile(handle.shuffleId, mapId)
        override def remove(): Unit = inner.resolver.removeDataByMap(handle.shuffleId, mapId)
      }
    }

  /** Returns a writer of an output of mode remote that no service takes. */
  private def leftWriter[K, V](
      handle: LodestoneHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    if (handle.format == BlockFormat.SparkStream) {
      innerWriter(handle.inner, mapId, context, metrics)
    } else {
      reportingWriter(handle, mapId, context, metrics)((_, _) => ())
    }

  private def innerWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = handle match {
    case _: BypassMergeSortShuffleHandle[_, _] if hasSparksFiles =>
      val written = new WrittenBytes(metrics)
      new WholeOutputWriter(inner.writer[K, V](handle, mapId, context, written), written)
    case _ => inner.writer[K, V](handle, mapId, context, metrics)
  }

  /**
   * Returns a writer of an output that the executor keeps. As soon as the output is written, its
   * numbers of records are reported to the driver, if Lodestone has written it, or the checksums of
   * the blocks that an engine has written.
   */
  private def keepingWriter[K, V](
      handle: OwnHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter)(
      committed: Committed): ShuffleWriter[K, V] =
    reportingWriter(handle, mapId, context, metrics) { (written, records) =>
      def report(numbers: => Option[PackedLongs]): Unit =
        localSide.counted(handle, context.partitionId(), mapId, numbers)
      handle.format match {
        case _: BlockFormat.EngineFrames =>
          val lengths = FrameOutput.lengths(written, handle.dependency.partitioner.numPartitions)
          val file = inner.resolver.getDataFile(handle.shuffleId, mapId)
          val checksums = FrameOutput.checksums(file, lengths)
          report(Some(PackedLongs(checksums)))
          committed(lengths, None, Some(checksums))
        case _ =>
          report(records.map(_.packed))
          committed(written, records, None)
      }
    }

  /** Returns Lodestone's writer, or that of Spark or an engine for what only that one writes. */
  private def reportingWriter[K, V](
      handle: OwnHandle[K, V, _],
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter)(
      committed: (Array[Long], Option[RecordCounts]) => Unit): ShuffleWriter[K, V] = {
    val own = mapWriters.writer[K, V](handle.inner, handle.format, mapId, context, metrics)
    new AfterWriteShuffleWriter(
      own.getOrElse(innerWriter[K, V](handles.of(handle), mapId, context, metrics)),
      lengths => {
        own.flatMap(_.encoded).foreach(localSide.driver.report(_))
        committed(lengths, own.map(_.counts))
      })
  }

  def reader[K, C](
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] = {
    val task = ReduceTask(range, context, metrics, codec)
    def innerReader(plain: ShuffleHandle): ShuffleReader[K, C] =
      inner.reader(plain, range, context, metrics)
    handle match {
      case remote: LodestoneHandle[K @unchecked, _, C @unchecked] if remote.isRemote =>
        val reads = executorSide(remote.app).remoteReads
        reads.reader[K, C](remote, task).getOrElse(innerReader(handles.of(remote)))
      case merging: LodestoneHandle[K @unchecked, _, C @unchecked] =>
        val reads = executorSide(merging.app).reads
        reads.reader[K, C](merging, task).getOrElse(innerReader(handles.of(merging)))
      case local: LocalHandle[K @unchecked, _, C @unchecked] =>
        localSide.reads.reader[K, C](local, task).getOrElse(innerReader(handles.of(local)))
      case plain => innerReader(handles.checked(plain))
    }
  }

  /** Returns the hosts where the tasks of these reads of a shuffle should run, if they gain. */
  def hostsFor(shuffleId: Int, reads: Seq[ReadSize]): Option[TaskHosts] =
    coordinator.known.flatMap(_.hostsFor(shuffleId, reads))

  /** Returns the blocks of a shuffle whose frames its engine decodes by itself. */
  def blocks(
      handle: ShuffleHandle,
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): Option[EngineReader] = handle match {
    case own: LodestoneHandle[_, _, _] =>
      codec.filter(_.format == own.format).map { frames =>
        val task = ReduceTask(range, context, metrics)
        val heads = frames.heads(own.dependency)
        val side = executorSide(own.app)
        if (own.isRemote) side.remoteReads.blocks(own, task, heads)
        else side.reads.blocks(own, task, heads)
      }
    case _ => None
  }

  /** Called before the inner manager removes the shuffle. */
  def removed(shuffleId: Int): Unit = {
    executor.ifMade(_.removed(shuffleId))
    counting.ifMade(_.removed(shuffleId))
    coordinator.ifMade(_.removed(shuffleId))
    writers.ifMade(_.removed(shuffleId))
  }

  def stop(): Unit = {
    executor.ifMade(_.stop())
    coordinator.ifMade(_.stop())
  }

  private def coordinated(context: SparkContext): DriverCoordinator = {
    val made = DriverCoordinator(conf, context)
    LodestoneReport.follow(made)
    LodestoneTab.addTo(context)
    made
  }

  private def mapWriters: MapWriters = writers.get(new MapWriters(conf, inner.resolver))

  private def executorSide(app: Application): ExecutorSide =
    executor.get(new ExecutorSide(conf, localSide, app))

  private def localSide: LocalSide = counting.get(new LocalSide(conf))
}

private[lodestone] object ShuffleCore {

  /** Gets the lengths of blocks, and their numbers of records or their checksums, if known. */
  private type Committed = (Array[Long], Option[RecordCounts], Option[Array[Long]]) => Unit

  private def generationOf(handle: LodestoneHandle[_, _, _]): ShuffleGeneration =
    ShuffleGeneration(handle.shuffleId, handle.dependency.shuffleMergeId)

  /** A value that is created at its first use. Unlike a lazy val it knows whether it exists. */
  private final class OnDemand[T <: AnyRef] {
    @volatile private var made: Option[T] = None

    def get(make: => T): T = made.getOrElse(synchronized {
      if (made.isEmpty) made = Some(make)
      made.get
    })

    def known: Option[T] = made

    def ifMade(use: T => Unit): Unit = made.foreach(use)
  }
}
