// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.io.InputStream

import org.apache.spark.{Aggregator, InterruptibleIterator, SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.wire.rows.{RowReader, SqlRows}
import org.apache.spark.storage._
import org.apache.spark.util.CompletionIterator

/**
 * Reads merged chunks and originals through Spark's own fetch iterator, then combines and sorts as
 * Spark does. (`BlockStoreShuffleReader` always fetches with the executor's own client.)
 */
private[fetch] final class MergedShuffleReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    plan: FetchPlan,
    fetcher: ChunkFetcher,
    substitutes: Substitutes,
    failures: MergedFailure,
    context: TaskContext,
    metrics: ShuffleReadMetricsReporter)
    extends ShuffleReader[K, C] {

  private val dependency = handle.dependency

  override def read(): Iterator[Product2[K, C]] = {
    val records = recordsOf(dependency.serializer)
    val check = new RecordsCheck(plan.merged, failures)
    val fetched = blocks().flatMap { case (id, stream) => check(id, records(stream)) }
    val counted = failures.guard(fetched).map { record =>
      metrics.incRecordsRead(1)
      record
    }
    val completed = CompletionIterator[(Any, Any), Iterator[(Any, Any)]](
      counted,
      context.taskMetrics().mergeShuffleReadMetrics())
    val combined = combine(new InterruptibleIterator(context, completed))
    new InterruptibleIterator(context, sort(combined))
  }

  private def recordsOf(serializer: Serializer): InputStream => Iterator[(Any, Any)] = {
    val instance = serializer.newInstance()
    if (SqlRows.areOf(serializer)) new RowReader(instance)
    else instance.deserializeStream(_).asKeyValueIterator
  }

  /** The values are already combined if the map side did it. */
  private def combine(records: Iterator[(Any, Any)]): Iterator[Product2[K, C]] =
    dependency.aggregator match {
      case Some(aggregator) if dependency.mapSideCombine =>
        aggregator.combineCombinersByKey(records.asInstanceOf[Iterator[(K, C)]], context)
      case Some(aggregator) =>
        aggregator
          .asInstanceOf[Aggregator[K, Any, C]]
          .combineValuesByKey(records.asInstanceOf[Iterator[(K, Any)]], context)
      case None => records.asInstanceOf[Iterator[Product2[K, C]]]
    }

  private def sort(records: Iterator[Product2[K, C]]): Iterator[Product2[K, C]] =
    dependency.keyOrdering match {
      case Some(ordering) =>
        val sorter = SparkSorter[K, C](context, ordering, dependency.serializer)
        sorter.insertAllAndUpdateMetrics(records)
      case None => records
    }

  private def blocks(): Iterator[(BlockId, InputStream)] = {
    val env = SparkEnv.get
    val conf = env.conf
    new ShuffleBlockFetcherIterator(
      context,
      fetcher,
      env.blockManager,
      new OriginalsTracker(conf, env.mapOutputTracker, substitutes),
      addresses.iterator,
      env.serializerManager.wrapStream,
      conf.get(config.REDUCER_MAX_SIZE_IN_FLIGHT) * MergedShuffleReader.BytesPerMib,
      conf.get(config.REDUCER_MAX_REQS_IN_FLIGHT),
      conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS),
      conf.get(config.MAX_REMOTE_BLOCK_SIZE_FETCH_TO_MEM),
      conf.get(config.SHUFFLE_MAX_ATTEMPTS_ON_NETTY_OOM),
      conf.get(config.SHUFFLE_DETECT_CORRUPT),
      conf.get(config.SHUFFLE_DETECT_CORRUPT_MEMORY),
      conf.get(config.SHUFFLE_CHECKSUM_ENABLED),
      conf.get(config.SHUFFLE_CHECKSUM_ALGORITHM),
      metrics,
      false).toCompletionIterator
  }

  /**
   * Merged blocks under one address per service, that of their first chunk. Its host is not a real
   * one: where it equals the executor's own, Spark looks for merged files on the local disk instead of
   * asking the service.
   */
  private def addresses: FetchPlan.Blocks = {
    val mergeId = dependency.shuffleMergeId
    val byService = plan.merged.groupBy(_.chunks.head.service).toSeq
    val merged = byService.map { case (service, partitions) =>
      val address = BlockManagerId(
        BlockManagerId.SHUFFLE_MERGER_IDENTIFIER,
        MergedShuffleReader.nameOf(service.host),
        service.port)
      val blocks = partitions.map { partition =>
        val id: BlockId = ShuffleMergedBlockId(handle.shuffleId, mergeId, partition.reduceId)
        (id, partition.sizeBytes, MergedShuffleReader.NoMapIndex)
      }
      address -> blocks
    }
    merged ++ plan.originals
  }
}

private[fetch] object MergedShuffleReader {
  private val BytesPerMib = 1024L * 1024

  /** What Spark gives merged blocks (`SHUFFLE_PUSH_MAP_ID`). */
  private val NoMapIndex = -1

  /** A name that no host has, and that says in Spark's log whose it is. */
  private def nameOf(host: String): String =
    "lodestone-" + host.map(c => if (c.isLetterOrDigit || c == '.') c else '-')
}
