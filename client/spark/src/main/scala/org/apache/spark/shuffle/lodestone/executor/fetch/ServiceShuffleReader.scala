// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.SparkEnv
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.lodestone.executor.rows.BlockEncryption
import org.apache.spark.shuffle.lodestone.plan.OwnHandle
import org.apache.spark.storage._

/** Streams of blocks, and what checks them. `begin` begins to fetch. */
private[fetch] final case class BlockStreams(
    check: RecordsCheck,
    begin: () => Iterator[(BlockId, InputStream)]) {

  def reader[K, C](handle: OwnHandle[K, _, C], task: ReduceTask): ShuffleReader[K, C] =
    new RecordReader(handle, task, check)(begin())
}

/** Reads chunks of services, and originals. (Spark's reader has only the executor's client.) */
private[fetch] object ServiceShuffleReader {

  def apply(
      handle: OwnHandle[_, _, _],
      sources: ReadSources,
      fetcher: ChunkFetcher,
      check: ChunkCheck,
      task: ReduceTask): BlockStreams = {
    val env = SparkEnv.get
    val hasOriginals = sources.originals.nonEmpty || sources.replaced.nonEmpty
    BlockStreams(
      check,
      () => {
        val blocks = addresses(handle, sources)
        val tracker = new OriginalsTracker(env.conf, env.mapOutputTracker, fetcher.inPlaceOf)
        RecordReader.fetch(
          fetcher,
          tracker,
          blocks,
          handle.format,
          inBatches = false,
          hasOriginals,
          decryption(sources),
          task)
      })
  }

  private def decryption(sources: ReadSources): (BlockId, InputStream) => InputStream = {
    val encryption = BlockEncryption()
    val portions = sources.merged.map(one => one.reduceId -> one.portions).toMap
    (id, bytes) =>
      id match {
        case chunk: ShuffleBlockChunkId =>
          encryption.reading(bytes, portions(chunk.reduceId)(chunk.chunkId).lengths)
        case _ => encryption.reading(bytes)
      }
  }

  /**
   * Partitions under one address per service, that of their first chunk. Its host is not a real
   * one: if it equals the executor's own, Spark looks for merged files on the local disk and does
   * not ask the service.
   */
  private def addresses(
      handle: OwnHandle[_, _, _],
      sources: ReadSources): ReadSources.BlocksByAddress = {
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

  /** What Spark gives merged blocks (`SHUFFLE_PUSH_MAP_ID`). */
  private val NoMapIndex = -1

  /** A name that no host has, and that names the owner in Spark's log. */
  private def nameOf(host: String): String =
    "lodestone-" + host.map(c => if (c.isLetterOrDigit || c == '.') c else '-')
}
