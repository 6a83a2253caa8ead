// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{FilterInputStream, InputStream}

import org.apache.spark._
import org.apache.spark.internal.config
import org.apache.spark.network.shuffle.BlockStoreClient
import org.apache.spark.serializer.SerializerInstance
import org.apache.spark.shuffle.ShuffleReader
import org.apache.spark.shuffle.lodestone.executor.rows.{Lz4Blocks, Lz4Reader, RowReader}
import org.apache.spark.shuffle.lodestone.executor.rows.encoded.{CheckedGroups, EncodedRows}
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, OwnHandle, SqlRows}
import org.apache.spark.storage.{BlockId, ShuffleBlockFetcherIterator}
import org.apache.spark.util.CompletionIterator

/**
 * Makes of streams of blocks what a reduce task asks for: combined and sorted as Spark does it.
 *
 * @param streams
 *   begins to fetch
 */
private[fetch] final class RecordReader[K, C](
    handle: OwnHandle[K, _, C],
    task: ReduceTask,
    check: RecordsCheck)(
    streams: => Iterator[(BlockId, InputStream)])
    extends ShuffleReader[K, C] {
  private val dependency = handle.dependency
  private val context = task.context

  override def read(): Iterator[Product2[K, C]] = {
    val records = this.records
    val made = sort(combine(records))
    if (made eq records) made else new InterruptibleIterator(context, made)
  }

  private def records: Iterator[(Any, Any)] = {
    val instance = dependency.serializer.newInstance()
    handle.format match {
      case BlockFormat.EncodedRows => encoded(instance)
      case frames: BlockFormat.EngineFrames =>
        new CheckedFrames(streams, task.codecOf(frames).decoder(dependency), check, task)
      case BlockFormat.SparkStream =>
        val recordsIn: InputStream => Iterator[(Any, Any)] =
          if (SqlRows.areOf(dependency.serializer)) new RowReader(instance)
          else instance.deserializeStream(_).asKeyValueIterator
        new CheckedRecords(streams, recordsIn, check, task)
    }
  }

  /**
   * A task may read thousands of partitions, one after another, and Spark keeps its listeners until
   * it ends: none of them may know what has been read.
   */
  private def encoded(instance: SerializerInstance): Iterator[(Any, Any)] = {
    val codecs = new EncodedRows.Codecs(SparkEnv.get.conf)
    context.addTaskCompletionListener[Unit](_ => codecs.free())
    val all = CompletionIterator[(BlockId, InputStream), Iterator[(BlockId, InputStream)]](
      streams,
      codecs.free())
    new CheckedRecords(all, new EncodedRows.Reader(codecs, instance), check, task)
  }

  /** The values are already combined if the map side did it. */
  private def combine(records: Iterator[(Any, Any)]): Iterator[Product2[K, C]] =
    dependency.aggregator match {
      case Some(aggregator) if dependency.mapSideCombine =>
        aggregator.combineCombinersByKey(records.asInstanceOf[Iterator[(K, C)]], context)
      case Some(aggregator) =>
        val combining = aggregator.asInstanceOf[Aggregator[K, Any, C]]
        combining.combineValuesByKey(records.asInstanceOf[Iterator[(K, Any)]], context)
      case None => records.asInstanceOf[Iterator[Product2[K, C]]]
    }

  private def sort(records: Iterator[Product2[K, C]]): Iterator[Product2[K, C]] =
    dependency.keyOrdering match {
      case Some(ordering) =>
        val sorter = SparkSorter[K, C](context, ordering, dependency.serializer)
        sorter.insertAllAndUpdateMetrics(records)
      case None => records
    }
}

private[fetch] object RecordReader {

  /**
   * Returns the streams of blocks, in the order in which they arrive. Blocks of a format of our own
   * are decoded later, but checked here, so that Spark treats damage as that of its own format.
   *
   * @param inBatches
   *   whether blocks of one map that follow each other are fetched as one
   * @param decrypted
   *   decrypts a block, or a chunk of several, if Spark encrypts
   * @param hasOriginals
   *   whether the task may fetch original blocks. Spark then computes a checksum of all bytes,
   *   which shows where an original was damaged whose codec fails. It does not use the checksums of
   *   chunks
   */
  def fetch(
      client: BlockStoreClient,
      tracker: MapOutputTracker,
      blocks: ReadSources.BlocksByAddress,
      format: BlockFormat,
      inBatches: Boolean,
      hasOriginals: Boolean,
      decrypted: (BlockId, InputStream) => InputStream,
      task: ReduceTask): Iterator[(BlockId, InputStream)] = {
    val env = SparkEnv.get
    val conf = env.conf
    val isSparks = format == BlockFormat.SparkStream
    val lz4 = if (isSparks && Lz4Blocks.areUsed(conf)) Some(new Lz4Reader) else None
    lazy val checked = new CheckedGroups
    def decoded(id: BlockId, bytes: InputStream): InputStream = format match {
      // Engines do not encrypt.
      case _: BlockFormat.EngineFrames => new FilterInputStream(bytes) {}
      case BlockFormat.SparkStream =>
        val plain = decrypted(id, bytes)
        lz4.fold(env.serializerManager.wrapForCompression(id, plain))(_(plain))
      case _ => checked(decrypted(id, bytes))
    }
    new ShuffleBlockFetcherIterator(
      task.context,
      client,
      env.blockManager,
      tracker,
      blocks.iterator,
      decoded,
      conf.get(config.REDUCER_MAX_SIZE_IN_FLIGHT) << 20,
      conf.get(config.REDUCER_MAX_REQS_IN_FLIGHT),
      conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS),
      conf.get(config.MAX_REMOTE_BLOCK_SIZE_FETCH_TO_MEM),
      conf.get(config.SHUFFLE_MAX_ATTEMPTS_ON_NETTY_OOM),
      conf.get(config.SHUFFLE_DETECT_CORRUPT),
      conf.get(config.SHUFFLE_DETECT_CORRUPT_MEMORY),
      hasOriginals && conf.get(config.SHUFFLE_CHECKSUM_ENABLED),
      conf.get(config.SHUFFLE_CHECKSUM_ALGORITHM),
      task.metrics,
      inBatches).toCompletionIterator
  }
}
