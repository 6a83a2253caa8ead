// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.nio.ByteBuffer
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import scala.concurrent.Await
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertNotNull, assertTrue}

import org.apache.spark.{SparkConf, TaskContext}
import org.apache.spark.network.TransportContext
import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.server.{OneForOneStreamManager, RpcHandler, StreamManager}
import org.apache.spark.network.shuffle.BlockFetchingListener
import org.apache.spark.network.util.{MapConfigProvider, TransportConf}
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.{
  BlockFormat,
  Reason,
  ServiceLocation,
  ShuffleGeneration
}
import org.apache.spark.shuffle.lodestone.transport.{RequestTimer, SameThread, ServiceClient}
import org.apache.spark.shuffle.lodestone.transport.ServiceHealth
import org.apache.spark.shuffle.lodestone.wire.{Application, HelloReply, LaidSegment, Load}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, Refused, RequestCodecs, SegmentRun}
import org.apache.spark.shuffle.lodestone.wire.Status
import org.apache.spark.storage.{BlockManagerId, ShuffleBlockChunkId, ShuffleBlockId}

/**
 * A reader of a service that takes its requests and does not answer them, as one that is frozen
 * does, or refuses them. The tests count requests, since time on a busy machine says little.
 */
final class UnhelpfulServiceSuite {
  private val generation = ShuffleGeneration(3, 0)
  private val arrived = new LinkedBlockingQueue[Int]()
  private val context =
    new TransportContext(new TransportConf("test", MapConfigProvider.EMPTY), new Handler)
  private val server = context.createServer("127.0.0.1", 0, new java.util.ArrayList())
  private val address = HostPort("127.0.0.1", server.getPort)
  private val service = ServiceLocation(address.host, address.port, 7)
  private val partitions = 20

  /** Beside the real time, for what is remembered of services. */
  @volatile private var laterNs = 0L
  private val health = new ServiceHealth(() => System.nanoTime() + laterNs)
  private val client = clientWith(timeoutMs = 1000)
  private val shortTimeoutClient = clientWith(timeoutMs = 500)

  private def clientWith(timeoutMs: Long): ServiceClient =
    new ServiceClient(Application("app", -1), timeoutMs, health)

  /** The answer to a reader; None: it is silent. */
  @volatile private var refusal: Option[Refused] = None

  /** A client that sends a Hello sees a service that lives. */
  private final class Handler extends RpcHandler {
    override def receive(peer: TransportClient, in: ByteBuffer, out: RpcResponseCallback): Unit = {
      val typeId = in.get(in.position()).toInt
      arrived.add(typeId)
      if (typeId == RequestCodecs.hello.typeId) {
        out.onSuccess(HelloReply(1, "test", 7, Load(0, 1, 2, 3, 4, 5, 6)).encode())
      } else {
        refusal.foreach(refused => out.onSuccess(refused.encode()))
      }
    }
    override def getStreamManager: StreamManager = new OneForOneStreamManager()
  }

  /** On a slow machine the first connection takes its time. */
  @BeforeEach def connect(): Unit = Seq(client, shortTimeoutClient).foreach { one =>
    val tries = Iterator.continually(Await.ready(one.hello(address), 20.seconds).value)
    assertTrue(tries.take(20).exists(_.exists(_.isSuccess)), "the service was not even greeted")
  }

  @AfterEach def close(): Unit = {
    client.close()
    shortTimeoutClient.close()
    server.close()
    context.close()
  }

  private def requests(typeId: Int): Int =
    arrived.stream().filter(_ == typeId).count().toInt

  private def assertAtMost(limit: Int, typeId: Int): Unit =
    assertTrue(requests(typeId) <= limit, s"${requests(typeId)} requests instead of $limit")

  /** One block in each partition, and all of them merged by the service. */
  private final class Task(client: ServiceClient = client) {
    private val tally = new ReadTally
    private val failures = new LinkedBlockingQueue[String]()
    private val originals: ReadSources.BlocksByAddress = Seq(
      BlockManagerId("a", "a", 1) ->
        (0 until partitions).map(reduceId => (ShuffleBlockId(3, 100, reduceId), 10L, 0)))
    private val merged = (0 until partitions).map { reduceId =>
      val segments = Array(LaidSegment(0, 100, 0, 10, -1, 0))
      val chunk = FetchChunk(service, reduceId, Array(SegmentRun(0, 1)), segments)
      FetchPartition(reduceId, IndexedSeq(Portion(IndexedSeq(chunk))))
    }
    private val sources = ReadSources(merged, Nil, replaced = originals)
    private val fallback = new Originals(sources, generation, null, tally, TaskContext.empty())
    private val fetcher =
      new ChunkFetcher(client, generation, merged, fallback, None, tally, own = null)
    private val tracker = new OriginalsTracker(new SparkConf(false), null, fetcher.inPlaceOf)
    private val listener = new BlockFetchingListener {
      override def onBlockFetchSuccess(id: String, data: ManagedBuffer): Unit =
        throw new AssertionError(s"$id came from nowhere")
      override def onBlockFetchFailure(id: String, cause: Throwable): Unit = failures.add(id)
    }

    def ask(reduceId: Int): Unit = {
      val id = ShuffleBlockChunkId(3, 0, reduceId, 0).name
      val merger = BlockManagerId.SHUFFLE_MERGER_IDENTIFIER
      fetcher.fetchBlocks(service.host, service.port, merger, Array(id), listener, null)
    }

    /** Waits for so many failures, and takes the originals as Spark's iterator does. */
    def fallBack(count: Int): Map[String, Long] = {
      (0 until count).foreach { _ =>
        val failed = failures.poll(20, TimeUnit.SECONDS)
        assertNotNull(failed, "a chunk neither came nor failed")
        tracker.getMapSizesForMergeResult(3, failed.split('_')(3).toInt)
      }
      tally.counts.fallbacks
    }
  }

  @Test def `a task sends a silent service the requests that it may have under way and no more`()
      : Unit = {
    val task = new Task
    (0 until 5).foreach(task.ask)
    assertEquals(Map("FETCH_TIMED_OUT" -> 5L), task.fallBack(5))
    laterNs = TimeUnit.HOURS.toNanos(1)
    assertFalse(client.isSuspect(service), "it would be tried again")
    (5 until partitions).foreach(task.ask)
    val reasons = Map("FETCH_TIMED_OUT" -> 5L, "FETCH_SERVICE_SUSPECT" -> (partitions - 5L))
    assertEquals(reasons, task.fallBack(partitions - 5))
    assertAtMost(5, RequestCodecs.fetchSegments.typeId)
  }

  @Test def `tasks that come after do not ask at all`(): Unit = {
    val first = new Task
    first.ask(0)
    first.fallBack(1)
    val second = new Task
    (0 until partitions).foreach(second.ask)
    assertEquals(Map("FETCH_SERVICE_SUSPECT" -> partitions.toLong), second.fallBack(partitions))
    assertAtMost(1, RequestCodecs.fetchSegments.typeId)
  }

  /** Why there are no layouts, and of how many partitions. */
  private def withoutLayout(): (Set[Reason], Int) = {
    val reader = new LayoutReader(client, generation, BlockFormat.SparkStream, MapRange.All)
    val answers = reader.askOnce(Seq(service -> (0 until partitions)))(_ => 1)
    val missing = for (one <- answers; reason <- one.layouts.left.toSeq; id <- one.reduceIds)
      yield id -> reason
    (missing.map(_._2).toSet, missing.map(_._1).distinct.size)
  }

  @Test def `the layout is asked for once by a task, and not by the next`(): Unit = {
    assertEquals((Set(Reason.FetchTimedOut), partitions), withoutLayout())
    assertEquals((Set(Reason.FetchSuspect), partitions), withoutLayout())
    assertAtMost(1, RequestCodecs.segmentLayout.typeId)
  }

  @Test def `a chunk that does not come from a service that lives is given up too`(): Unit = {
    val task = new Task(shortTimeoutClient)
    val over = new CountDownLatch(1)
    def greet(): Unit = shortTimeoutClient
      .hello(address)
      .onComplete(_ => if (over.getCount > 0) RequestTimer.after(50)(greet()))(SameThread)
    greet()
    task.ask(0)
    assertEquals(Map("FETCH_TIMED_OUT" -> 1L), task.fallBack(1))
    over.countDown()
    assertFalse(shortTimeoutClient.isSuspect(service), "it answered others all the time")
    assertAtMost(1, RequestCodecs.fetchSegments.typeId)
    assertTrue(requests(RequestCodecs.hello.typeId) > 4, "it showed no sign of life")
  }

  @Test def `a service at its limit is asked once more each time, and stays in use`(): Unit = {
    refusal = Some(Refused(Status.Overloaded, 7, "no memory"))
    val task = new Task
    (1 to 2).foreach { asked =>
      task.ask(asked)
      assertEquals(Map("FETCH_OVERLOADED" -> asked.toLong), task.fallBack(1))
      assertEquals(2 * asked, requests(RequestCodecs.fetchSegments.typeId))
    }
    assertFalse(client.isSuspect(service), "it answers")
  }

  @Test def `a service that has no memory for a layout is not waited for`(): Unit = {
    refusal = Some(Refused(Status.Overloaded, 7, "no memory"))
    assertEquals((Set(Reason.FetchOverloaded), partitions), withoutLayout())
    assertEquals(2, requests(RequestCodecs.segmentLayout.typeId))
  }
}
