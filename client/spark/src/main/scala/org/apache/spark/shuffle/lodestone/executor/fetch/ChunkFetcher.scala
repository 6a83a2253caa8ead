// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable

import io.netty.buffer.{ByteBuf, Unpooled}
import org.roaringbitmap.RoaringBitmap
import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.shuffle._
import org.apache.spark.network.shuffle.checksum.Cause
import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport._
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockChunkId}

/**
 * The client with which Spark's iterator of one reduce task fetches. Merged blocks come from
 * services: chunk `i` of the iterator is the `i`-th portion of a partition. It is handed over only
 * if the length and the checksum of each segment are right. The executor's own client fetches all
 * else.
 */
private[fetch] final class ChunkFetcher(
    client: ServiceClient,
    generation: ShuffleGeneration,
    merged: Seq[FetchPartition],
    fallback: Fallback,
    rescue: Option[ChunkRescue],
    tally: ReadTally,
    own: BlockStoreClient = SparkEnv.get.blockManager.blockStoreClient)
    extends BlockStoreClient with Logged {
  import ChunkFetcher._

  private val partitions = merged.map(partition => partition.reduceId -> partition).toMap
  private val turns = merged.filter(_.inTurn).map(_.reduceId -> new Turns).toMap

  /** The requests of this task that are under way at each service. */
  private val rooms = new ConcurrentHashMap[ServiceLocation, Turnstile]()

  /** Services whose failures end the requests of this task, with the reason. */
  private val left = new ConcurrentHashMap[ServiceLocation, Reason]()

  /** It is not known whether Spark's iterator has something that was handed over. */
  @volatile private var isInDoubt = false

  /** Returns what is read instead of these maps' blocks. Called on the task's thread. */
  def inPlaceOf(reduceId: Int, maps: Int => Boolean): ReadSources.BlocksByAddress = {
    if (isInDoubt) {
      throw new SparkException(
        "A chunk that had arrived could not be handed over (the executor's log says why), and " +
          "its rows may be read already: another attempt of the task reads all of them once.")
    }
    fallback(reduceId, maps)
  }

  /** The task has the layout already. */
  override def getMergedBlockMeta(
      host: String,
      port: Int,
      shuffleId: Int,
      shuffleMergeId: Int,
      reduceId: Int,
      listener: MergedBlocksMetaListener): Unit = {
    val portions = partitions(reduceId).portions
    val bitmaps = new NioManagedBuffer(serialized(portions.map(_.bitmap)))
    val meta = new MergedBlockMeta(portions.size, bitmaps)
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
      val wanted = blockIds.flatMap { text =>
        val id = BlockId(text).asInstanceOf[ShuffleBlockChunkId]
        val portion = partitions(id.reduceId).portions(id.chunkId)
        val turn = turns.get(id.reduceId).map(_.turnOf(id.chunkId)).getOrElse(Turns.AtOnce)
        val arrival = new Arrival(text, id.reduceId, portion, listener, turn)
        portion.chunks.indices.map(at => Wanted(arrival, at, portion.chunks(at)))
      }
      wanted.groupBy(_.chunk.service).foreach { case (service, ofService) =>
        fetch(service, ofService, None)
      }
    } else {
      own.fetchBlocks(host, port, execId, blockIds, listener, downloadFileManager)
    }

  /** Fetches in requests of limited size, a limited number at a time. */
  private def fetch(
      service: ServiceLocation,
      chunks: Array[Wanted],
      failedNs: Option[Long]): Unit = {
    val room = rooms.computeIfAbsent(service, _ => new Turnstile(TaskRoom))
    chunks.grouped(MaxChunks).foreach { some =>
      val receiver = new Receiver(service, some, failedNs, room)
      room.enter(some.length) { () =>
        obstacle(service) match {
          case Some(reason) => receiver.refuseAll(reason)
          case None =>
            client.fetchChunks(service, generation, some.map(_.chunk.wanted), receiver)
        }
      }
    }
  }

  /** Why the service is not asked: a task with originals does not wait for it a second time. */
  private def obstacle(service: ServiceLocation): Option[Reason] =
    if (rescue.isDefined) None
    else
      Option(left.get(service))
        .orElse(if (client.isSuspect(service)) Some(Reason.FetchSuspect) else None)

  /** Gets the chunks of one request. */
  private final class Receiver(
      service: ServiceLocation,
      chunks: Array[Wanted],
      firstFailedNs: Option[Long],
      room: Turnstile)
      extends ChunkReceiver {
    private val broken = mutable.ArrayBuffer.empty[(Wanted, Throwable)]
    private var failedNs = firstFailedNs
    private val pending = new AtomicInteger(chunks.length)

    override def received(index: Int, data: ManagedBuffer): Option[DamagedChunkException] = {
      val wanted = chunks(index)
      val bytes = ChunkBytes(data)
      try {
        ChunkDamage(wanted.chunk.reduceId, wanted.chunk.segments, bytes) match {
          case None =>
            wanted.arrival.received(wanted, bytes)
            settled()
            None
          case damaged => damaged
        }
      } finally {
        bytes.release()
      }
    }

    override def failed(index: Int, cause: Throwable): Unit = {
      if (rescue.isEmpty) giveUp(chunks(index), cause)
      else
        synchronized {
          failedNs = failedNs.orElse(Some(System.nanoTime()))
          broken += chunks(index) -> cause
        }
      settled()
    }

    private def settled(): Unit = if (pending.decrementAndGet() == 0) {
      room.left(chunks.length)
      val byClass = broken.toArray.groupBy { case (_, cause) => FailureClass.of(cause) }
      for (how <- rescue; alike <- byClass.values) tryAgain(how, alike.map(_._1), alike.head._2)
    }

    /** For chunks that failed for the same reason. */
    private def tryAgain(how: ChunkRescue, failed: Array[Wanted], cause: Throwable): Unit = {
      val sinceNs = failedNs.getOrElse(System.nanoTime())
      how(failed.map(_.chunk).toSeq, cause, sinceNs).onComplete { outcome =>
        outcome.failed.foreach(log.error(
          s"The search for other replicas than that at ${service.hostPort} failed",
          _))
        val found = outcome.getOrElse(failed.map(_ => None).toSeq)
        val again = failed.toSeq.zip(found).flatMap { case (wanted, chunk) =>
          if (chunk.isEmpty) giveUp(wanted, cause)
          chunk.map(one => wanted.copy(chunk = one))
        }
        again.groupBy(_.chunk.service).foreach { case (replica, ofReplica) =>
          fetch(replica, ofReplica.toArray, Some(sinceNs))
        }
      }(SameThread)
    }

    private def giveUp(wanted: Wanted, cause: Throwable): Unit = {
      val reason = ReadReason.of(cause, otherwise = Reason.ChunkFetchFailed)
      val action = FailureClass.of(cause).action
      if (!action.reads) left.put(service, if (action.penalty) Reason.FetchSuspect else reason)
      wanted.arrival.failed(wanted.chunk, reason, cause)
    }

    def refuseAll(reason: Reason): Unit = {
      val cause = new IOException(s"${service.hostPort}: ${reason.sentence}")
      chunks.foreach(wanted => wanted.arrival.failed(wanted.chunk, reason, cause))
      room.left(chunks.length)
    }
  }

  /** One portion on its way: it is handed over when all its chunks have arrived. */
  private final class Arrival(
      blockId: String,
      reduceId: Int,
      portion: Portion,
      listener: BlockFetchingListener,
      turn: Turns.Turn) {
    private val chunks = portion.chunks.toArray
    private val parts = new Array[ByteBuf](chunks.length)
    private var missing = chunks.length

    /** It was handed over, or given up: the iterator gets one of both, once. */
    private var isOver = false

    def received(wanted: Wanted, bytes: ByteBuf): Unit = {
      val isWhole = synchronized {
        if (!isOver && parts(wanted.at) == null) {
          chunks(wanted.at) = wanted.chunk
          parts(wanted.at) = bytes.retain()
          missing -= 1
          isOver = missing == 0
          isOver
        } else {
          false
        }
      }
      if (isWhole) handOver()
    }

    /**
     * Spark's iterator may throw here, as may a JVM without memory. Then the iterator may have the
     * portion or not: to give it again, or to read originals instead, could double its rows. So a
     * failure wakes the iterator, and the task fails when it asks what to read instead.
     */
    private def handOver(): Unit = {
      var isTaken = false
      try {
        chunks.foreach { chunk =>
          tally.chunk(chunk.sizeBytes, chunk.segments.length, OwnHost.has(chunk.service))
        }
        val bytes = Unpooled.wrappedBuffer(parts.length, parts: _*)
        val all = new PortionBuffer(chunks.toIndexedSeq, bytes)
        turn { () =>
          listener.onBlockFetchSuccess(blockId, all)
          all.release()
          ()
        }
        isTaken = true
      } finally {
        if (!isTaken) {
          isInDoubt = true
          val failure = new IOException(s"$blockId arrived and could not be handed over")
          listener.onBlockFetchFailure(blockId, failure)
        }
      }
    }

    def failed(chunk: FetchChunk, reason: Reason, cause: Throwable): Unit = {
      val isFirst = synchronized {
        val first = !isOver
        isOver = true
        if (first) parts.foreach(part => if (part != null) part.release())
        first
      }
      if (isFirst) {
        fallback.chunkFailed(reduceId, chunk, reason, cause)
        turn(() => listener.onBlockFetchFailure(blockId, cause))
      }
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

  /** No connection belongs to this task alone. */
  override def close(): Unit = ()

  /** A chunk, and the portion to which it belongs. */
  private case class Wanted(arrival: Arrival, at: Int, chunk: FetchChunk)
}

private[fetch] object ChunkFetcher {

  /** Chunks of one request: a service keeps their list, and refuses several times as many. */
  private val MaxChunks = 4096

  /** Chunks that a task has under way at one service: other tasks do not wait long for theirs. */
  private val TaskRoom = 4 * MaxChunks

  /** One after another, as Spark's `MergedBlockMeta` reads them. */
  private def serialized(bitmaps: Seq[RoaringBitmap]): ByteBuffer = {
    val buffer = ByteBuffer.allocate(bitmaps.map(_.serializedSizeInBytes()).sum)
    bitmaps.foreach(_.serialize(buffer))
    buffer.flip()
    buffer
  }
}
