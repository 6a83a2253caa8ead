// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.File
import java.nio.ByteBuffer
import java.nio.file.Path
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{SparkConf, SparkException, TaskContext}
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.shuffle.BlockFetchingListener
import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{Application, Crc32c, Ledger, MapRange, Segment}
import org.apache.spark.shuffle.lodestone.wire.{ShuffleMode, Status}
import org.apache.spark.storage.{BlockManagerId, ShuffleBlockChunkId, ShuffleBlockId}

/** Spark's iterator, or a JVM without memory, throws when it gets a chunk that has arrived. */
final class UntakenChunkSuite {
  @TempDir var directory: Path = _

  private val generation = ShuffleGeneration(3, 0)
  private val client = new ServiceClient(Application("app", -1), 20000)
  private val original: ReadSources.BlocksByAddress =
    Seq(BlockManagerId("a", "a", 1) -> Seq((ShuffleBlockId(3, 100, 0), 4L, 0)))
  private var daemon: DaemonProcess = _
  private var service: ServiceLocation = _

  private def await[T](answer: Future[T]): T = Await.result(answer, 20.seconds)

  @BeforeEach def push(): Unit = {
    daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    service = daemon.location
    await(client.registerShuffle(service, generation, 1, 1, ShuffleMode.Merge))
    val bytes = ByteBuffer.wrap(Array[Byte](1, 2, 3, 4))
    val segments = Array(Segment(0, 4, 1, Crc32c.of(bytes.duplicate())))
    val body = new NioManagedBuffer(bytes)
    val reply = await(client.pushBatch(service, generation, 0, 100, segments, body)(()))
    assertEquals(Seq(Status.Ok), reply.statuses.toSeq)
    val ledger = Ledger.of(0, 100, segments.head)
    await(client.commitMap(service, generation, 0, 100, ledger))
  }

  @AfterEach def stop(): Unit = {
    client.close()
    daemon.stop()
  }

  private def merged(inTurn: Boolean): Seq[FetchPartition] = {
    val layouts = await(client.layout(service, generation, MapRange.All, Array(0), 1)).partitions
    ReadSources(original, Seq(service -> layouts.head)).merged.map(_.copy(inTurn = inTurn))
  }

  @Test def `its task fails, and neither waits for ever nor reads the rows once more`(): Unit =
    for (inTurn <- Seq(false, true)) {
      val tally = new ReadTally
      val partitions = merged(inTurn)
      val sources = ReadSources(partitions, Nil, replaced = original)
      val fallback = new Originals(sources, generation, null, tally, TaskContext.empty())
      val fetcher =
        new ChunkFetcher(client, generation, partitions, fallback, None, tally, own = null)
      val events = new LinkedBlockingQueue[String]()
      val listener = new BlockFetchingListener {
        override def onBlockFetchSuccess(id: String, data: ManagedBuffer): Unit = {
          events.add("arrived")
          throw new OutOfMemoryError("scripted: no memory for what arrives")
        }
        override def onBlockFetchFailure(id: String, cause: Throwable): Unit = events.add("failed")
      }
      val id = ShuffleBlockChunkId(3, 0, 0, 0).name
      val merger = BlockManagerId.SHUFFLE_MERGER_IDENTIFIER
      fetcher.fetchBlocks(service.host, service.port, merger, Array(id), listener, null)
      assertEquals("arrived", events.poll(10, TimeUnit.SECONDS))
      assertEquals("failed", events.poll(10, TimeUnit.SECONDS), "the task's iterator is not woken")
      val tracker = new OriginalsTracker(new SparkConf(false), null, fetcher.inPlaceOf)
      assertThrows(
        classOf[SparkException],
        () => { tracker.getMapSizesForMergeResult(3, 0); () })
      assertEquals(0, events.size, "the chunk was handed over once more")
    }
}
