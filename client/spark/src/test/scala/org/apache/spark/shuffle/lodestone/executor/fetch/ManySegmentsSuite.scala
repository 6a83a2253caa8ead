// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.File
import java.nio.ByteBuffer
import java.nio.file.Path
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.TaskContext
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.shuffle.BlockFetchingListener
import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{Application, BlockSequence, Crc32c, Ledger}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, Segment, ShuffleMode}
import org.apache.spark.storage.{BlockManagerId, ShuffleBlockChunkId}

/** Segments that are each a chunk of its own, in numbers that no service takes. */
@Tag("seldom")
final class ManySegmentsSuite {
  @TempDir var directory: Path = _

  private val generation = ShuffleGeneration(3, 0)
  private val client = new ServiceClient(Application("app", -1), 20000)
  private val batch = 35000
  private val batches = 2
  private var daemon: DaemonProcess = _
  private var service: ServiceLocation = _
  private var chunks: IndexedSeq[FetchChunk] = _

  private def await[T](answer: Future[T]): T = Await.result(answer, 60.seconds)

  @BeforeEach def push(): Unit = {
    daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    service = daemon.location
    await(client.registerShuffle(service, generation, 1, 1, ShuffleMode.Remote))
    val pushed = (0 until batches).map(pushBatch).reduce(_.and(_))
    await(client.commitMap(service, generation, 0, 100, pushed))
    val layout = await(client.layout(service, generation, MapRange.All, Array(0), batches * batch))
    val cut = new ChunkCut(service, 0, ChunkCut.OneSegment)
    chunks = cut.addFrom(layout.partitions.head)(_ => true).result()
    assertEquals(batches * batch, chunks.size)
  }

  private def pushBatch(number: Int): Ledger = {
    val first = number * batch
    val body = ByteBuffer.allocate(4 * batch)
    val segments = (first until first + batch).map { sequence =>
      val bytes = ByteBuffer.allocate(4).putInt(0, sequence)
      body.putInt(sequence)
      Segment(0, 4, 1, Crc32c.of(bytes), sequenceOf(sequence))
    }.toArray
    body.flip()
    val data = new NioManagedBuffer(body)
    val reply = await(client.pushBatch(service, generation, 0, 100, segments, data, first)(()))
    assertTrue(reply.statuses.forall(_.isSuccess))
    segments.map(Ledger.of(0, 100, _)).reduce(_.and(_))
  }

  /** All are of one block. */
  private def sequenceOf(number: Int): Int =
    if (number < batches * batch - 1) BlockSequence(number)
    else BlockSequence.last(BlockSequence(number))

  @AfterEach def stop(): Unit = {
    client.close()
    daemon.stop()
  }

  /** Asks for all of these at once, as Spark's iterator does: what came, in its order. */
  private final class Task(
      wanted: IndexedSeq[FetchChunk],
      rescue: Option[ChunkRescue] = None) {
    private val came = new ConcurrentLinkedQueue[Int]()
    private val failures = new ConcurrentLinkedQueue[Throwable]()
    private val over = new CountDownLatch(wanted.size)
    private val merged = ReadOrder(wanted, concatenable = false)
    private val tally = new ReadTally
    private val fallback =
      new Originals(ReadSources(merged, Nil), generation, null, tally, TaskContext.empty())
    private val fetcher =
      new ChunkFetcher(client, generation, merged, fallback, rescue, tally, own = null)
    private val listener = new BlockFetchingListener {
      override def onBlockFetchSuccess(id: String, data: ManagedBuffer): Unit = {
        val in = data.createInputStream()
        came.add((0 until 4).foldLeft(0)((number, _) => number << 8 | in.read()))
        over.countDown()
      }
      override def onBlockFetchFailure(id: String, cause: Throwable): Unit = {
        failures.add(cause)
        over.countDown()
      }
    }

    def start(): Unit = {
      val ids = wanted.indices.map(ShuffleBlockChunkId(3, 0, 0, _).name).toArray
      val merger = BlockManagerId.SHUFFLE_MERGER_IDENTIFIER
      fetcher.fetchBlocks(service.host, service.port, merger, ids, listener, null)
    }

    def assertAllInOrder(): Unit = {
      assertTrue(
        over.await(120, TimeUnit.SECONDS),
        s"${over.getCount} chunks neither came nor failed")
      assertEquals(0, failures.size, s"the first of them: ${failures.peek()}")
      val numbers = wanted.map(chunk => BlockSequence.numberOf(chunk.segments.head.sequence))
      assertEquals(numbers, came.toArray.toSeq)
    }
  }

  @Test def `a partition of more segments than a stream has chunks is read, in order`(): Unit = {
    val task = new Task(chunks)
    task.start()
    task.assertAllInOrder()
  }

  @Test def `many tasks that share a connection get all that they ask for`(): Unit = {
    val tasks = (1 to 5).map(_ => new Task(chunks.take(batch)))
    tasks.foreach(_.start())
    tasks.foreach(_.assertAllInOrder())
  }

  /** Finds at the daemon what was asked for elsewhere. */
  private final class Elsewhere extends ChunkRescue {
    val groups = new ConcurrentLinkedQueue[Int]()
    override def apply(
        chunks: Seq[FetchChunk],
        cause: Throwable,
        failedNs: Long): Future[Seq[Option[FetchChunk]]] = {
      groups.add(chunks.size)
      Future.successful(chunks.map(chunk => Some(chunk.copy(service = service))))
    }
  }

  @Test def `chunks that fail together are sought together, and not one by one`(): Unit = {
    val gone = SilentDriver.goneService()
    val rescue = new Elsewhere
    val task = new Task(chunks.map(_.copy(service = gone)), Some(rescue))
    task.start()
    task.assertAllInOrder()
    val groups = rescue.groups.toArray.toSeq
    assertEquals(chunks.size, groups.map(_.asInstanceOf[Int]).sum)
    // As many as there are requests of 4,096 chunks.
    assertEquals(18, groups.size, s"$groups")
  }
}
