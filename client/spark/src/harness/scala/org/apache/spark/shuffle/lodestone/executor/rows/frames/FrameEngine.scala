// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.frames

import java.io.{BufferedOutputStream, File, FileOutputStream}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.{ShuffleDependency, SparkConf, SparkEnv, TaskContext}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.{Engine, LodestoneShuffles, ShuffleCore}
import org.apache.spark.shuffle.lodestone.plan.BlockFormat
import org.apache.spark.shuffle.sort.SortShuffleManager

/** A shuffle with this serializer is the engine's. It never serializes anything. */
final class FrameSerializer(conf: SparkConf) extends JavaSerializer(conf) {

  /** Java's serialization of tasks needs it. */
  def this() = this(new SparkConf(false))
}

/** A shuffle that the engine reads and writes, but not as frames. */
final class OwnWaySerializer(conf: SparkConf) extends JavaSerializer(conf) {

  /** Java's serialization of tasks needs it. */
  def this() = this(new SparkConf(false))
}

private[lodestone] final class FrameHandle[K, V, C](id: Int, of: ShuffleDependency[K, V, C])
    extends BaseShuffleHandle[K, V, C](id, of)

private[lodestone] final class OwnWayHandle[K, V, C](id: Int, of: ShuffleDependency[K, V, C])
    extends BaseShuffleHandle[K, V, C](id, of)

/**
 * The shuffle manager of an engine that works as a columnar one does, with [[TestFrames]]: it
 * writes a local file by itself, and trusts the bytes that it reads.
 */
private[lodestone] final class FrameEngineShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends FrameShuffles(conf, isDriver, FrameEngine)

/** The shuffle manager of an engine. */
private[lodestone] abstract class FrameShuffles(
    conf: SparkConf,
    isDriver: Boolean,
    frameEngine: Engine)
    extends OwnShuffleManager(conf)
    with LodestoneShuffles {
  override protected val core =
    new ShuffleCore(conf, isDriver, below(Some(frameEngine), shuffleBlockResolver))
}

/** The engine's own manager, which knows nothing of Lodestone. */
private[lodestone] abstract class OwnShuffleManager(conf: SparkConf)
    extends SortShuffleManager(conf) {

  override def registerShuffle[K, V, C](
      shuffleId: Int,
      dependency: ShuffleDependency[K, V, C]): ShuffleHandle = dependency.serializer match {
    case _: FrameSerializer => new FrameHandle(shuffleId, dependency)
    case _: OwnWaySerializer => new OwnWayHandle(shuffleId, dependency)
    case _ => super.registerShuffle(shuffleId, dependency)
  }

  override def getWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] = handle match {
    case own: FrameHandle[K @unchecked, V @unchecked, _] =>
      new FrameWriter[K, V](own.dependency, mapId, shuffleBlockResolver, metrics)
    case other => super.getWriter(other, mapId, context, metrics)
  }
}

private object FrameEngine extends Engine {
  override val withFrames: Set[Class[_]] = Set(classOf[FrameHandle[_, _, _]])
  override val handles: Set[Class[_]] = withFrames + classOf[OwnWayHandle[_, _, _]]
  override val codec: FrameCodec = new FrameCodec {
    override val format: BlockFormat.EngineFrames = BlockFormat.EngineFrames("test-1")
    override def decoder(dependency: ShuffleDependency[_, _, _]): FrameDecoder = TestFrames
  }
}

/** Writes a frame for each record, as its text. */
private final class FrameWriter[K, V](
    dependency: ShuffleDependency[K, V, _],
    mapId: Long,
    resolver: IndexShuffleBlockResolver,
    metrics: ShuffleWriteMetricsReporter)
    extends ShuffleWriter[K, V] {
  private val partitioner = dependency.partitioner
  private val lengths = new Array[Long](partitioner.numPartitions)

  override def write(records: Iterator[Product2[K, V]]): Unit = {
    val blocks = Array.fill(lengths.length)(ArrayBuffer.empty[Array[Byte]])
    records.foreach { record =>
      blocks(partitioner.getPartition(record._1)) += TestFrames.of(record._2.toString)
    }
    val data = resolver.getDataFile(dependency.shuffleId, mapId)
    val written = new File(data.getPath + ".engine")
    val out = new BufferedOutputStream(new FileOutputStream(written))
    try blocks.foreach(_.foreach(out.write))
    finally out.close()
    blocks.indices.foreach(i => lengths(i) = blocks(i).map(_.length.toLong).sum)
    metrics.incBytesWritten(lengths.sum)
    resolver.writeMetadataFileAndCommit(
      dependency.shuffleId,
      mapId,
      lengths,
      Array.emptyLongArray,
      written)
  }

  override def stop(success: Boolean): Option[MapStatus] =
    Some(MapStatus(SparkEnv.get.blockManager.shuffleServerId, lengths, mapId)).filter(_ => success)

  override def getPartitionLengths(): Array[Long] = lengths
}
