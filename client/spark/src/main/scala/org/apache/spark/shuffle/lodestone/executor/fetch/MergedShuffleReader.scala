// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.storage._

/**
 * Reads merged chunks and originals through Spark's own fetch iterator, then combines and sorts as
 * Spark does. (`BlockStoreShuffleReader` always fetches with the executor's own client.)
 */
private[fetch] final class MergedShuffleReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    plan: FetchPlan,
    fetcher: ChunkFetcher,
    failures: MergedFailure,
    originals: OriginalsCheck,
    context: TaskContext,
    metrics: ShuffleReadMetricsReporter)
    extends ShuffleReader[K, C] {

  private val dependency = handle.dependency

  override def read(): Iterator[Product2[K, C]] = {
    val records = new ShuffleRecords(handle, context, metrics)
    val check = new MergedCheck(plan.merged, originals, failures)
    records.asked(failures.guard(records.of(blocks(), check)))
  }

  private def blocks(): Iterator[(BlockId, InputStream)] = {
    val env = SparkEnv.get
    val tracker = new OriginalsTracker(env.conf, env.mapOutputTracker, fetcher.inPlaceOf)
    val hasOriginals = plan.originals.nonEmpty || plan.replaced.nonEmpty
    BlockFetch(fetcher, tracker, addresses, inBatches = false, hasOriginals, context, metrics)
  }

  /**
   * Merged blocks under one address per service, that of their first chunk. Its host is not a real
   * one: where it equals the executor's own, Spark looks for merged files on the local disk instead of
   * asking the service.
   */
  private def addresses: FetchPlan.Blocks = {
    val mergeId = dependency.shuffleMergeId
    val byService = plan.merged.groupBy(_.chunks.next().service).toSeq
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

  /** What Spark gives merged blocks (`SHUFFLE_PUSH_MAP_ID`). */
  private val NoMapIndex = -1

  /** A name that no host has, and that says in Spark's log whose it is. */
  private def nameOf(host: String): String =
    "lodestone-" + host.map(c => if (c.isLetterOrDigit || c == '.') c else '-')
}
