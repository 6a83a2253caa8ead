// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap

import scala.util.Success

import io.netty.buffer.{ByteBuf, Unpooled}
import io.netty.util.ReferenceCountUtil
import org.roaringbitmap.RoaringBitmap

import org.apache.spark.SparkEnv
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.shuffle._
import org.apache.spark.network.shuffle.checksum.Cause
import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.ShuffleGeneration
import org.apache.spark.shuffle.lodestone.transport._
import org.apache.spark.shuffle.lodestone.wire.{ChunkPlaces, Crc32c}
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockChunkId}

/** Whom a task asks, and for which shuffle. */
private[fetch] final case class MergedSource(client: ServiceClient, generation: ShuffleGeneration)

/**
 * What Spark's fetch iterator of one reduce task fetches with. Merged blocks come from the services:
 * chunk `i` of the iterator is the `i`-th of its partition's plan, and is handed over only if the
 * length and the checksum of each segment are right. All else goes the executor's own way.
 */
private[fetch] final class ChunkFetcher(
    source: MergedSource,
    merged: Seq[MergedPartition],
    own: BlockStoreClient,
    substitutes: Substitutes,
    rescue: ChunkRescue,
    tally: ReadTally)
    extends BlockStoreClient {

  private val partitions = merged.map(partition => partition.reduceId -> partition).toMap

  /** Services that this task has met a failure of after which they are not asked any more. */
  private val left = new ConcurrentHashMap[ServiceLocation, Reason]()

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
        FetchedChunk(text, id.reduceId, partitions(id.reduceId).chunks(id.chunkId), None)
      }
      val byService = chunks.groupBy(_.chunk.service)
      byService.foreach { case (service, ofService) => fetch(service, ofService, listener) }
    } else {
      own.fetchBlocks(host, port, execId, blockIds, listener, downloadFileManager)
    }

  private def fetch(
      service: ServiceLocation,
      chunks: Array[FetchedChunk],
      listener: BlockFetchingListener): Unit = {
    val receiver = new Receiver(service, chunks, listener)
    obstacle(service) match {
      case Some(reason) => receiver.refuseAll(reason)
      case None =>
        val wanted = chunks.map { chunk =>
          WantedChunk(ChunkPlaces(chunk.reduceId, chunk.chunk.runs), chunk.chunk.sizeBytes)
        }
        source.client.fetchChunks(service, source.generation, wanted, receiver)
    }
  }

  /** Why the service need not be asked: what was met once is not waited for again. */
  private def obstacle(service: ServiceLocation): Option[Reason] =
    if (rescue.insists) {
      None
    } else {
      Option(left.get(service))
        .orElse(if (source.client.isSuspect(service)) Some(Reason.FetchSuspect) else None)
    }

  private final class Receiver(
      service: ServiceLocation,
      chunks: Array[FetchedChunk],
      listener: BlockFetchingListener)
      extends ChunkReceiver {
    private val isLocal = OwnHost.has(service)

    override def received(index: Int, data: ManagedBuffer): Option[DamagedChunkException] = {
      val chunk = chunks(index)
      val bytes = ChunkFetcher.bytesOf(data)
      try {
        val damage = ChunkFetcher.damage(chunk.chunk, bytes)
        if (damage.isEmpty) {
          tally.chunk(chunk.chunk.sizeBytes, chunk.chunk.segments.length, isLocal)
          listener.onBlockFetchSuccess(chunk.blockId, data)
        }
        damage.map(new DamagedChunkException(_))
      } finally {
        bytes.release()
      }
    }

    override def failed(index: Int, cause: Throwable): Unit = {
      val chunk = chunks(index)
      val failedNs = chunk.failedNs.getOrElse(System.nanoTime())
      rescue(chunk.reduceId, chunk.chunk, cause, failedNs).onComplete {
        case Success(Some(again)) =>
          val next = chunk.copy(chunk = again, failedNs = Some(failedNs))
          fetch(again.service, Array(next), listener)
        case _ => giveUp(index, cause)
      }(SameThread)
    }

    private def giveUp(index: Int, cause: Throwable): Unit = {
      val reason = ReadReason.of(cause, otherwise = Reason.ChunkFetchFailed)
      val action = FailureClass.of(cause).action
      if (!action.reads) left.put(service, if (action.penalty) Reason.FetchSuspect else reason)
      fail(chunks(index), reason, cause)
    }

    def refuseAll(reason: Reason): Unit = {
      val cause = new IOException(s"${service.hostPort}: ${reason.sentence}")
      chunks.foreach(fail(_, reason, cause))
    }

    private def fail(chunk: FetchedChunk, reason: Reason, cause: Throwable): Unit = {
      substitutes.chunkFailed(chunk.reduceId, service, reason)
      listener.onBlockFetchFailure(chunk.blockId, cause)
    }
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

  private case class FetchedChunk(
      blockId: String,
      reduceId: Int,
      chunk: MergedChunk,
      failedNs: Option[Long])
}

private[fetch] object ChunkFetcher {

  /** Of a task of this executor. */
  def apply(
      source: MergedSource,
      merged: Seq[MergedPartition],
      substitutes: Substitutes,
      rescue: ChunkRescue,
      tally: ReadTally): ChunkFetcher = {
    val own = SparkEnv.get.blockManager.blockStoreClient
    new ChunkFetcher(source, merged, own, substitutes, rescue, tally)
  }

  /** In the pieces in which they came: Spark's own way to look at them puts a copy together. */
  def bytesOf(data: ManagedBuffer): ByteBuf = data.convertToNetty() match {
    case bytes: ByteBuf => bytes
    case other =>
      ReferenceCountUtil.release(other)
      Unpooled.wrappedBuffer(data.nioByteBuffer())
  }

  /** What is wrong with the bytes of a chunk, if anything is. */
  def damage(chunk: MergedChunk, bytes: ByteBuf): Option[String] =
    if (bytes.readableBytes() != chunk.sizeBytes) {
      Some(s"a chunk has ${bytes.readableBytes()} bytes instead of ${chunk.sizeBytes}")
    } else {
      val crc = new Crc32c(bytes.nioBuffers())
      val broken = chunk.segments.find(segment => crc.next(segment.length) != segment.crc32c)
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
