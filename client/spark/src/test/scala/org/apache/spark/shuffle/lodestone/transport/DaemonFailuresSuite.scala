// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.collection.mutable
import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt
import scala.util.{Failure, Random}

import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.{DamagedSegment, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.wire.{Application, WantedChunk, Crc32c, Done, Ledger}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, PushBatchReply, Segment, SegmentRun}
import org.apache.spark.shuffle.lodestone.wire.Status

/** Failures of a real daemon, and the client's answers to them. */
final class DaemonFailuresSuite {
  @TempDir var directory: Path = _
  private val generation = ShuffleGeneration(3, 0)
  private val blockBytes = 2500000
  private var daemon: DaemonProcess = _
  private var clients = List.empty[ServiceClient]

  @BeforeEach def start(): Unit = daemon = startOn(port = 0)

  @AfterEach def stop(): Unit = {
    clients.foreach(_.close())
    daemon.kill()
  }

  private def startOn(port: Int): DaemonProcess =
    DaemonProcess.start(directory.resolve("daemon").toFile, port, memory = "16MiB")

  private def newClient(timeoutMs: Long = 10000): ServiceClient = {
    val client = new ServiceClient(Application("app-1", -1), timeoutMs)
    clients ::= client
    client
  }

  private def service: ServiceLocation = daemon.location

  private def isSuspect(client: ServiceClient): Boolean =
    client.health.isSuspect(HostPort(daemon.host, daemon.port))

  private def await[T](future: Future[T]): T = Await.result(future, 30.seconds)

  private def failureOf(future: Future[_]): FailureClass =
    Await.ready(future, 30.seconds).value.get match {
      case Failure(failure) => FailureClass.of(failure)
      case answer => throw new AssertionError(s"it was answered: $answer")
    }

  private def block(seed: Int): Array[Byte] = {
    val bytes = new Array[Byte](blockBytes)
    new Random(seed).nextBytes(bytes)
    bytes
  }

  private def push(client: ServiceClient, mapIndex: Int, reduceId: Int): Future[PushBatchReply] = {
    val bytes = ByteBuffer.wrap(block(reduceId))
    val segments = Array(Segment(reduceId, blockBytes, -1, Crc32c.of(bytes.duplicate())))
    val body = new NioManagedBuffer(bytes)
    // Each block is one request, named by the number of its segment.
    client.pushBatch(
      service,
      generation,
      mapIndex,
      100L + mapIndex,
      segments,
      body,
      firstSegment = reduceId)(())
  }

  /** Some partitions of one block of the first map each, which is one chunk. */
  private def merge(client: ServiceClient, partitions: Int): Unit = {
    await(client.registerShuffle(service, generation, numMaps = 2, partitions))
    (0 until partitions).foreach { reduceId =>
      assertEquals(Seq(Status.Ok), await(push(client, 0, reduceId)).statuses.toSeq)
    }
    await(commit(client, 0, ledgerOf(0, 0 until partitions)))
    ()
  }

  private def ledgerOf(mapIndex: Int, reduceIds: Range): Ledger =
    reduceIds.map(id => Ledger.of(mapIndex, 100L + mapIndex, segmentOf(id))).reduce(_.and(_))

  private def commit(
      client: ServiceClient,
      mapIndex: Int,
      acknowledged: Ledger,
      at: ServiceLocation = service): Future[Done] =
    client.commitMap(at, generation, mapIndex, 100L + mapIndex, acknowledged)

  /** Four of these blocks are more than the daemon has memory for: one that has a file. */
  private def onDisk(): (Int, Path) = {
    val all = Files.walk(directory).toArray.toSeq.map(_.asInstanceOf[Path])
    val files = all.filter(file => Files.isRegularFile(file) && Files.size(file) == blockBytes)
    val content = ByteBuffer.wrap(Files.readAllBytes(files.head))
    ((0 until 4).find(id => ByteBuffer.wrap(block(id)) == content).get, files.head)
  }

  /** Reads these partitions, and records each outcome. */
  private final class Reads(client: ServiceClient, from: ServiceLocation, partitions: Int)
      extends ChunkReceiver {
    private val arrived = mutable.Map.empty[Int, Int].withDefaultValue(0)
    private val failed = mutable.Map.empty[Int, FailureClass]
    private val whole = mutable.Set.empty[Int]
    private val left = new CountDownLatch(partitions)

    override def received(index: Int, data: ManagedBuffer): Option[DamagedChunkException] =
      synchronized {
        arrived(index) += 1
        if (data.nioByteBuffer() == ByteBuffer.wrap(block(index))) {
          whole += index
          left.countDown()
          None
        } else {
          Some(new DamagedChunkException(s"chunk $index", DamagedSegment(index, 0, 0, 0)))
        }
      }

    override def failed(index: Int, cause: Throwable): Unit = synchronized {
      failed(index) = FailureClass.of(cause)
      left.countDown()
    }

    def run(): Reads = {
      val chunks = Array.tabulate(partitions) { id =>
        SizedChunk(WantedChunk(id, Array(SegmentRun(0, 1))), blockBytes.toLong)
      }
      client.fetchChunks(from, generation, chunks, this)
      assertTrue(left.await(30, TimeUnit.SECONDS), "not every chunk arrived or failed")
      this
    }

    def intact: Set[Int] = synchronized(whole.toSet)
    def failures: Map[Int, FailureClass] = synchronized(failed.toMap)
    def arrivals: Seq[Int] = synchronized((0 until partitions).map(arrived))
  }

  private def read(client: ServiceClient, partitions: Int): Reads =
    new Reads(client, service, partitions).run()

  private def segmentOf(reduceId: Int): Segment =
    Segment(reduceId, blockBytes, -1, Crc32c.of(ByteBuffer.wrap(block(reduceId))))

  @Test def `services show the blocks of a merged shuffle that the client counted`(): Unit = {
    val client = newClient()
    await(client.registerShuffle(service, generation, numMaps = 2, numPartitions = 1))
    for (mapIndex <- 0 to 1) await(push(client, mapIndex, 0))
    val ledger = ledgerOf(1, 0 to 0)
    val wrong = failureOf(commit(client, 1, ledger.and(ledger)))
    assertEquals(FailureClass.of(Status.LedgerMismatch), wrong)
    for (_ <- 1 to 2) await(commit(client, 1, ledger))
    val layout = await(client.layout(service, generation, MapRange.All, Array(0), 2))
    val shown = layout.partitions.head.runs.toSeq.flatMap(_.segments)
    assertEquals(Seq(101L), shown.map(_.mapId))
  }

  @Test def `another block under the name of one that is there is not taken for it`(): Unit = {
    val client = newClient()
    await(client.registerShuffle(service, generation, numMaps = 2, numPartitions = 1))
    await(push(client, 0, 0))
    assertEquals(Seq(Status.Duplicate), await(push(client, 0, 0)).statuses.toSeq)
    val other = ByteBuffer.wrap(Array[Byte](1, 2, 3))
    val segments = Array(Segment(0, 3, -1, Crc32c.of(other.duplicate())))
    val body = new NioManagedBuffer(other)
    val pushed = await(client.pushBatch(service, generation, 0, 100L, segments, body)(()))
    assertEquals(Seq(Status.OtherContent), pushed.statuses.toSeq)
    assertEquals(FailureClass.Fault, FailureClass.of(Status.OtherContent))
  }

  @Test def `a chunk whose file is lost fails alone`(): Unit = {
    val client = newClient()
    merge(client, partitions = 4)
    val (lost, path) = onDisk()
    Files.delete(path)
    val reads = read(client, 4)
    assertEquals((0 until 4).toSet - lost, reads.intact)
    assertEquals(Map(lost -> FailureClass.ServiceDisk), reads.failures)
    assertFalse(isSuspect(client), "the others of its chunks would not be read")
  }

  @Test def `a damaged chunk is asked for twice and the others once`(): Unit = {
    val client = newClient()
    merge(client, partitions = 4)
    val (damaged, path) = onDisk()
    val file = new RandomAccessFile(path.toFile, "rw")
    file.seek(777)
    file.write(~block(damaged)(777))
    file.close()
    val reads = read(client, 4)
    assertEquals((0 until 4).toSet - damaged, reads.intact)
    assertEquals(Map(damaged -> FailureClass.Corrupt), reads.failures)
    assertEquals((0 until 4).map(id => if (id == damaged) 2 else 1), reads.arrivals)
    assertFalse(isSuspect(client))
  }

  @Test def `a daemon that was started again is well, but its data is gone`(): Unit = {
    val client = newClient()
    merge(client, partitions = 1)
    val old = service
    daemon.kill()
    daemon = startOn(daemon.port)
    assertEquals(
      FailureClass.MissingData,
      failureOf(client.layout(old, generation, MapRange.All, Array(0), 1)))
    val committed = commit(client, 0, ledgerOf(0, 0 to 0), at = old)
    assertEquals(FailureClass.MissingData, failureOf(committed))
    assertFalse(isSuspect(client), "the new daemon has done nothing wrong")
  }

  @Test def `a shuffle that the daemon does not know is missing data`(): Unit = {
    val client = newClient()
    assertEquals(FailureClass.MissingData, failureOf(push(client, 0, 0)))
    assertEquals(FailureClass.MissingData, failureOf(commit(client, 0, Ledger.Empty)))
    assertFalse(isSuspect(client))
  }

  @Test def `a push after the removal is overtaken`(): Unit = {
    val client = newClient()
    merge(client, partitions = 1)
    await(client.removeShuffle(service, generation))
    // It is one-way, so the test waits until the service has handled it.
    val gone = Iterator.continually {
      val asked = client.layout(service, generation, MapRange.All, Array(0), 1)
      Await.ready(asked, 30.seconds).value.get.isFailure
    }
    assertTrue(gone.take(10000).exists(identity), "the shuffle was not removed")
    val statuses = await(push(client, 1, 0)).statuses.toSeq
    assertEquals(Seq(FailureClass.Overtaken), statuses.map(FailureClass.of))
  }

  @Test def `a daemon that died is left alone at once`(): Unit = {
    val client = newClient()
    merge(client, partitions = 2)
    daemon.kill()
    val reads = read(client, 2)
    assertEquals(Map(0 -> FailureClass.Network, 1 -> FailureClass.Network), reads.failures)
    assertTrue(isSuspect(client))
  }

  /** Reads two partitions through a proxy. Returns whether the service is suspect then. */
  private def readBy(proxy: FlakyProxy): (Reads, Boolean) =
    try {
      val client = newClient()
      val reads = new Reads(client, service.copy(port = proxy.port), 2).run()
      (reads, client.health.isSuspect(HostPort(daemon.host, proxy.port)))
    } finally {
      proxy.close()
    }

  /** The first chunk, and half of the second. */
  private val firstAndHalf = blockBytes * 3L / 2

  @Test def `the rest of a broken connection is fetched by another one`(): Unit = {
    merge(newClient(), partitions = 2)
    val limit = (connection: Int) => if (connection == 0) firstAndHalf else Long.MaxValue
    val proxy = new FlakyProxy(daemon.port, limit, standsStill = false)
    val (reads, suspect) = readBy(proxy)
    assertEquals(Set(0, 1), reads.intact)
    assertEquals(Seq(1, 1), reads.arrivals, "what had come was asked for again")
    assertEquals(2, proxy.connections)
    assertFalse(suspect)
  }

  @Test def `a service whose connections break again is left alone after the second`(): Unit = {
    merge(newClient(), partitions = 2)
    val proxy = new FlakyProxy(daemon.port, _ => blockBytes / 2L, standsStill = false)
    val (reads, suspect) = readBy(proxy)
    assertEquals(Map(0 -> FailureClass.Network, 1 -> FailureClass.Network), reads.failures)
    assertEquals(2, proxy.connections)
    assertTrue(suspect)
  }

  @Test def `a chunk that stops half way is given up, and with it the connection`(): Unit = {
    merge(newClient(), partitions = 2)
    val limit = (connection: Int) => if (connection == 0) firstAndHalf else Long.MaxValue
    val proxy = new FlakyProxy(daemon.port, limit, standsStill = true)
    val client = newClient(timeoutMs = 2000)
    val reads = () => new Reads(client, service.copy(port = proxy.port), 2).run()
    try {
      val first = reads()
      assertEquals(Set(0), first.intact)
      assertEquals(Map(1 -> FailureClass.Silence), first.failures)
      assertEquals(1, proxy.connections, "it was repeated")
      assertTrue(client.health.isSuspect(HostPort(daemon.host, proxy.port)))
      val address = HostPort(daemon.host, proxy.port)
      val greetings = Iterator.continually(Await.ready(client.hello(address), 30.seconds).value)
      val greeted = greetings.take(5).exists(_.exists(_.isSuccess))
      assertTrue(greeted, "later requests wait on the dead connection")
      assertEquals(Set(0, 1), reads().intact)
    } finally {
      proxy.close()
    }
  }

  @Test def `a frozen daemon ends all that waits for it together, and is well when it wakes`()
      : Unit = {
    val client = newClient(timeoutMs = 2000)
    merge(client, partitions = 1)
    daemon.freeze()
    val asked = (1 to 20).map { _ =>
      client.layout(service, generation, MapRange.All, Array(0), 1)
    }
    assertEquals(Seq.fill(20)(FailureClass.Silence), asked.map(failureOf))
    assertTrue(isSuspect(client))
    daemon.thaw()
    // On a new connection, because the old one was closed.
    assertEquals(Set(0), read(client, 1).intact)
    assertFalse(isSuspect(client))
  }
}
