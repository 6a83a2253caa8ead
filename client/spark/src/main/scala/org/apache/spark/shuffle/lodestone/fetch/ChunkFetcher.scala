// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.io.IOException
import java.nio.ByteBuffer

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.shuffle._
import org.apache.spark.network.shuffle.checksum.Cause
import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.ShuffleGeneration
import org.apache.spark.shuffle.lodestone.transport.{ChunkReceiver, ServiceClient, ServiceLocation}
import org.apache.spark.shuffle.lodestone.wire.{ChunkRef, Crc32c, MapRange}
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockChunkId}

/** Whom a task asks, and for which part of the shuffle. */
private[fetch] final case class MergedSource(
    client: ServiceClient,
    generation: ShuffleGeneration,
    maps: MapRange)

/**
 * What Spark's fetch iterator of one reduce task fetches with. Merged blocks come from the services:
 * chunk `i` of the iterator is the `i`-th accepted chunk of its partition, and it is handed over only
 * if the length and the checksum of each segment are right. All else goes the executor's own way.
 */
private[fetch] final class ChunkFetcher(
    source: MergedSource,
    merged: Seq[MergedPartition],
    own: BlockStoreClient,
    tracker: OriginalsTracker,
    tally: ReadTally)
    extends BlockStoreClient {

  private val partitions = merged.map(partition => partition.reduceId -> partition).toMap

  /** The layout is in hand already. */
  override def getMergedBlockMeta(
      host: String,
      port: Int,
      shuffleId: Int,
      shuffleMergeId: Int,
      reduceId: Int,
      listener: MergedBlocksMetaListener): Unit = {
    val chunks = partitions(reduceId).chunks
    val bitmaps = ChunkFetcher.serialized(chunks.map(_.maps))
    val meta = new MergedBlockMeta(chunks.size, new NioManagedBuffer(bitmaps))
    listener.onSuccess(shuffleId, shuffleMergeId, reduceId, meta)
  }

  /**
   * Merged chunks are small and always come to memory, whatever
   * `spark.maxRemoteBlockSizeFetchToMem` says: they must be checked before Spark sees them.
   */
  override def fetchBlocks(
      host: String,
      port: Int,
      execId: String,
      blockIds: Array[String],
      listener: BlockFetchingListener,
      downloadFileManager: DownloadFileManager): Unit =
    if (execId == BlockManagerId.SHUFFLE_MERGER_IDENTIFIER) {
      val chunks = blockIds.map { text =>
        val id = BlockId(text).asInstanceOf[ShuffleBlockChunkId]
        FetchedChunk(text, id.reduceId, partitions(id.reduceId).chunks(id.chunkId))
      }
      val byService = chunks.groupBy(chunk => partitions(chunk.reduceId).service)
      byService.foreach { case (service, ofService) => fetch(service, ofService, listener) }
    } else {
      own.fetchBlocks(host, port, execId, blockIds, listener, downloadFileManager)
    }

  private def fetch(
      service: ServiceLocation,
      chunks: Array[FetchedChunk],
      listener: BlockFetchingListener): Unit = {
    val references = chunks.map(chunk => ChunkRef(chunk.reduceId, chunk.chunk.index))
    source.client.fetchChunks(
      service,
      source.generation,
      source.maps,
      references,
      new ChunkReceiver {
        override def received(index: Int, data: ManagedBuffer): Unit = {
          val chunk = chunks(index)
          ChunkFetcher.damage(chunk.chunk, data.nioByteBuffer()) match {
            case None =>
              tally.chunk(chunk.chunk.sizeBytes, chunk.chunk.segments.length)
              listener.onBlockFetchSuccess(chunk.blockId, data)
            case Some(damage) =>
              fail(chunk, Reason.ChunkCorrupt, new IOException(s"${service.hostPort}: $damage"))
          }
        }
        override def failed(index: Int, cause: Throwable): Unit =
          fail(chunks(index), ReadReason.of(cause, otherwise = Reason.ChunkFetchFailed), cause)

        private def fail(chunk: FetchedChunk, reason: Reason, cause: Throwable): Unit = {
          tracker.chunkFailed(chunk.reduceId, reason)
          listener.onBlockFetchFailure(chunk.blockId, cause)
        }
      })
  }

  override def diagnoseCorruption(
      host: String,
      port: Int,
      execId: String,
      shuffleId: Int,
      mapId: Long,
      reduceId: Int,
      checksum: Long,
      algorithm: String): Cause =
    own.diagnoseCorruption(host, port, execId, shuffleId, mapId, reduceId, checksum, algorithm)

  /** Neither the services' connections nor the executor's own are this task's. */
  override def close(): Unit = ()

  private case class FetchedChunk(blockId: String, reduceId: Int, chunk: AcceptedChunk)
}

private[fetch] object ChunkFetcher {

  /** What is wrong with the bytes of a chunk, if anything is. */
  def damage(chunk: AcceptedChunk, data: ByteBuffer): Option[String] =
    if (data.remaining() != chunk.sizeBytes) {
      Some(s"chunk ${chunk.index} has ${data.remaining()} bytes instead of ${chunk.sizeBytes}")
    } else {
      val bytes = data.duplicate()
      val broken = chunk.segments.find { segment =>
        val end = bytes.position() + segment.length
        bytes.limit(end)
        val intact = Crc32c.of(bytes) == segment.crc32c
        bytes.position(end)
        bytes.limit(data.limit())
        !intact
      }
      broken.map(segment => s"the block of map ${segment.mapIndex} has another checksum")
    }

  /** One after another, as Spark's `MergedBlockMeta` reads them. */
  private def serialized(bitmaps: Seq[RoaringBitmap]): ByteBuffer = {
    val buffer = ByteBuffer.allocate(bitmaps.map(_.serializedSizeInBytes()).sum)
    bitmaps.foreach(_.serialize(buffer))
    buffer.flip()
    buffer
  }
}
