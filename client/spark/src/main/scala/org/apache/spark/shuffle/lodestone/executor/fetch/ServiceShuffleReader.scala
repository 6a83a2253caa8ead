// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.apache.spark.shuffle._
import org.apache.spark.storage._

/** Reads chunks of services, and originals. (Spark's reader has only the executor's client.) */
private[fetch] final class ServiceShuffleReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    sources: ReadSources,
    fetcher: ChunkFetcher,
    check: ChunkCheck,
    task: ReduceTask)
    extends RecordReader[K, C](handle, task) {
  import ServiceShuffleReader._

  override def read(): Iterator[Product2[K, C]] = {
    val tracker = new OriginalsTracker(env.conf, env.mapOutputTracker, fetcher.inPlaceOf)
    val hasOriginals = sources.originals.nonEmpty || sources.replaced.nonEmpty
    val streams =
      RecordReader.fetch(fetcher, tracker, addresses, inBatches = false, hasOriginals, task)
    asked(check.guard(records(streams, check)))
  }

  /**
   * Partitions under one address per service, that of their first chunk. Its host is not a real
   * one: if it equals the executor's own, Spark looks for merged files on the local disk and does
   * not ask the service.
   */
  private def addresses: ReadSources.BlocksByAddress = {
    val shuffleMergeId = handle.dependency.shuffleMergeId
    val byService = sources.merged.groupBy(_.chunks.next().service).toSeq
    val merged = byService.map { case (service, partitions) =>
      val address = BlockManagerId(
        BlockManagerId.SHUFFLE_MERGER_IDENTIFIER,
        nameOf(service.host),
        service.port)
      val blocks = partitions.map { one =>
        val id: BlockId = ShuffleMergedBlockId(handle.shuffleId, shuffleMergeId, one.reduceId)
        (id, one.sizeBytes, NoMapIndex)
      }
      address -> blocks
    }
    merged ++ sources.originals
  }
}

private[fetch] object ServiceShuffleReader {

  /** What Spark gives merged blocks (`SHUFFLE_PUSH_MAP_ID`). */
  private val NoMapIndex = -1

  /** A name that no host has, and that names the owner in Spark's log. */
  private def nameOf(host: String): String =
    "lodestone-" + host.map(c => if (c.isLetterOrDigit || c == '.') c else '-')
}
