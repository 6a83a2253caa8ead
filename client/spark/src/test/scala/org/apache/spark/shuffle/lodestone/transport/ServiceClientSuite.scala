// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions._

import org.apache.spark.SparkConf
import org.apache.spark.network.TransportContext
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.client.{RpcResponseCallback, StreamCallbackWithID, TransportClient}
import org.apache.spark.network.server.{OneForOneStreamManager, RpcHandler, StreamManager}
import org.apache.spark.network.util.{MapConfigProvider, TransportConf}
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.wire.{Application, Done, Ledger, Message, OpenStream}
import org.apache.spark.shuffle.lodestone.wire.{PushBatch, PushBatchReply, Refused}
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, RequestCodecs, Segment}
import org.apache.spark.shuffle.lodestone.wire.{SegmentRun, ShuffleAddress, Status, WantedChunk}

/** The client against a real server of Spark's transport, which answers as each test needs. */
final class ServiceClientSuite {
  private val app = Application("app", -1)
  private val generation = ShuffleGeneration(3, 0)
  private var closing = List.empty[() => Unit]

  @AfterEach def closeAll(): Unit = closing.foreach(_.apply())

  private def onClose[T](resource: T)(close: T => Unit): T = {
    closing = (() => close(resource)) :: closing
    resource
  }

  private def serve(handler: RpcHandler): ServiceLocation = {
    val conf = new TransportConf("test", MapConfigProvider.EMPTY)
    val context = onClose(new TransportContext(conf, handler))(_.close())
    val server = onClose(
      context.createServer("127.0.0.1", 0, new java.util.ArrayList()))(_.close())
    ServiceLocation("127.0.0.1", server.getPort, incarnation = 42)
  }

  private def client(timeoutMs: Long = 10000): ServiceClient =
    onClose(new ServiceClient(app, timeoutMs))(_.close())

  private def await[T](future: Future[T]): T = Await.result(future, 20.seconds)

  private def wanted(place: Int, sizeBytes: Long): SizedChunk =
    SizedChunk(WantedChunk(0, Array(SegmentRun(place, 1))), sizeBytes)

  private class Answering(answer: ByteBuffer => Option[Message]) extends RpcHandler {
    override def receive(peer: TransportClient, in: ByteBuffer, out: RpcResponseCallback): Unit =
      answer(in).foreach(message => out.onSuccess(message.encode()))
    override def getStreamManager: StreamManager = new OneForOneStreamManager()
  }

  @Test def aRefusalCarriesItsCode(): Unit = {
    val refusal = Refused(Status.UnknownShuffle, 42, "gone")
    val service = serve(new Answering(_ => Some(refusal)))
    val asked = client()
    val thrown = assertThrows(
      classOf[RefusedException],
      () => { await(asked.commitMap(service, generation, 9, 1L << 40, Ledger.Empty)); () })
    assertEquals(refusal, thrown.refusal)
    assertFalse(asked.health.isSuspect(HostPort(service.host, service.port)))
  }

  @Test def aSilentServiceCostsOneTimeoutAndIsSuspectThen(): Unit = {
    val service = serve(new Answering(_ => None))
    val asked = client(timeoutMs = 200)
    assertThrows(
      classOf[RequestTimeoutException],
      () => { await(asked.commitMap(service, generation, 9, 1L << 40, Ledger.Empty)); () })
    assertTrue(asked.health.isSuspect(HostPort(service.host, service.port)))
  }

  @Test def aServiceThatIsNotThereIsAnIoError(): Unit = {
    val service = serve(new Answering(_ => None))
    closeAll()
    closing = Nil
    assertThrows(
      classOf[IOException],
      () => { await(client().commitMap(service, generation, 9, 1L << 40, Ledger.Empty)); () })
  }

  @Test def sparksOwnShuffleServiceIsDetected(): Unit = {
    val service = serve(new RpcHandler {
      override def receive(peer: TransportClient, in: ByteBuffer, out: RpcResponseCallback): Unit =
        out.onFailure(new UnsupportedOperationException("Unknown message type: 64"))
      override def getStreamManager: StreamManager = new OneForOneStreamManager()
    })
    val asked = client()
    val address = HostPort(service.host, service.port)
    val thrown = assertThrows(
      classOf[NotLodestoneException],
      () => { await(asked.hello(address)); () })
    assertTrue(thrown.getMessage.contains("is not a Lodestone service"), thrown.getMessage)
    assertTrue(asked.health.isSuspect(address))
  }

  @Test def aPushIsItsMetaAndTheBytesOfItsBody(): Unit = {
    val arrived = new LinkedBlockingQueue[(PushBatch, Seq[Byte])]()
    val service = serve(new Answering(_ => None) {
      override def receiveStream(
          peer: TransportClient,
          header: ByteBuffer,
          out: RpcResponseCallback): StreamCallbackWithID = new StreamCallbackWithID {
        private val batch = RequestCodecs.pushBatch.decode(header)
        private val body = Seq.newBuilder[Byte]
        override def getID: String = "push"
        override def onData(id: String, data: ByteBuffer): Unit =
          while (data.hasRemaining) body += data.get()
        override def onComplete(id: String): Unit = {
          arrived.add((batch, body.result()))
          ()
        }
        override def getCompletionResponse: ByteBuffer =
          PushBatchReply(42, isCommitted = false, Array(Status.Ok, Status.Duplicate)).encode()
        override def onFailure(id: String, cause: Throwable): Unit = ()
      }
    })
    val segments = Array(Segment(1, 2, -1, 77), Segment(2, 3, -1, 78))
    val body = Array[Byte](1, 2, 3, 4, 5)
    val buffer = new NioManagedBuffer(ByteBuffer.wrap(body))
    val reply = await(client().pushBatch(service, generation, 9, 1L << 40, segments, buffer)(()))
    assertEquals(Seq(Status.Ok, Status.Duplicate), reply.statuses.toSeq)
    val (batch, bytes) = arrived.poll(10, TimeUnit.SECONDS)
    assertEquals(body.toSeq, bytes)
    assertEquals(segments.toSeq, batch.segments.toSeq)
    assertEquals(ShuffleAddress(app, 42, 3, 0), batch.shuffle)
    assertEquals((9, 1L << 40), (batch.mapIndex, batch.mapId))
  }

  @Test def aBigPushMayTakeLongerThanASmallQuestion(): Unit = {
    val asked = client(timeoutMs = 300)
    val silent = serve(new Answering(_ => None))
    val question = asked.commitMap(silent, generation, 9, 1L << 40, Ledger.Empty)
    val pushed = serve(new Answering(_ => None) {
      override def receiveStream(
          peer: TransportClient,
          header: ByteBuffer,
          out: RpcResponseCallback): StreamCallbackWithID = new StreamCallbackWithID {
        override def getID: String = "push"
        override def onData(id: String, data: ByteBuffer): Unit = data.position(data.limit())

        /** When the time of the earlier question is over. */
        override def onComplete(id: String): Unit = {
          Await.ready(question, 20.seconds)
          ()
        }
        override def getCompletionResponse: ByteBuffer =
          PushBatchReply(42, isCommitted = false, Array(Status.Ok)).encode()
        override def onFailure(id: String, cause: Throwable): Unit = ()
      }
    })
    val size = 4 * 1024 * 1024
    val body = new NioManagedBuffer(ByteBuffer.allocate(size))
    val segments = Array(Segment(1, size, -1, 77))
    val reply = await(asked.pushBatch(pushed, generation, 9, 1L << 40, segments, body)(()))
    assertEquals(Seq(Status.Ok), reply.statuses.toSeq)
    assertThrows(classOf[RequestTimeoutException], () => { await(question); () })
  }

  @Test def everyChunkOfAStreamArrivesOrFailsOnce(): Unit = {
    val streams = new OneForOneStreamManager()
    val service = serve(new Answering(_ => None) {
      override def getStreamManager: StreamManager = streams
      override def receive(
          peer: TransportClient,
          in: ByteBuffer,
          out: RpcResponseCallback): Unit = {
        RequestCodecs.fetchSegments.decode(in)
        val chunks = new java.util.ArrayList[ManagedBuffer]()
        chunks.add(new NioManagedBuffer(ByteBuffer.wrap(Array[Byte](5, 6))))
        chunks.add(new NioManagedBuffer(ByteBuffer.wrap(Array[Byte](7))) {
          override def size(): Long = throw new IllegalStateException("cannot be read")
        })
        val id = streams.registerStream("app", chunks.iterator(), peer.getChannel)
        out.onSuccess(OpenStream(id, 2).encode())
      }
    })
    val seen = new LinkedBlockingQueue[(Int, String)]()
    val done = new CountDownLatch(2)
    client().fetchChunks(
      service,
      generation,
      Array(wanted(0, 2), wanted(1, 1)),
      new ChunkReceiver {
        override def received(
            index: Int,
            data: ManagedBuffer): Option[DamagedChunkException] = {
          seen.add((index, s"${data.size()} bytes"))
          done.countDown()
          None
        }
        override def failed(index: Int, cause: Throwable): Unit = {
          seen.add((index, "failed"))
          done.countDown()
        }
      })
    assertTrue(done.await(10, TimeUnit.SECONDS))
    assertEquals(Set((0, "2 bytes"), (1, "failed")), Set(seen.poll(), seen.poll()))
    assertTrue(seen.isEmpty)
  }

  @Test def requestsOnAConnectionThatLacksMemoryAreRetried(): Unit = {
    val streams = new OneForOneStreamManager()
    val arrived = new CountDownLatch(1)
    val committed = Done(42)
    val service = serve(new Answering(_ => None) {
      override def getStreamManager: StreamManager = streams
      override def receive(
          peer: TransportClient,
          in: ByteBuffer,
          out: RpcResponseCallback): Unit =
        if (in.get(in.position()) == RequestCodecs.fetchSegments.typeId) {
          val chunk: ManagedBuffer = new NioManagedBuffer(ByteBuffer.wrap(Array[Byte](5, 6)))
          val chunks = java.util.Collections.singletonList(chunk).iterator()
          out.onSuccess(OpenStream(
            streams.registerStream("app", chunks, peer.getChannel),
            1).encode())
        } else if (arrived.getCount == 0) {
          out.onSuccess(committed.encode())
        } else {
          arrived.countDown()
        }
    })
    val asked = client()
    val chunk = Promise[Long]()
    val answer = asked.commitMap(service, generation, 9, 1L << 40, Ledger.Empty)
    assertTrue(arrived.await(10, TimeUnit.SECONDS))
    asked.fetchChunks(
      service,
      generation,
      Array(wanted(0, 2)),
      new ChunkReceiver {
        private var hasMemory = false

        // Netty throws it here, on this thread and for this connection.
        override def received(index: Int, data: ManagedBuffer): Option[DamagedChunkException] = {
          if (!hasMemory) {
            hasMemory = true
            throw new OutOfMemoryError("scripted: no direct memory for what arrives")
          }
          chunk.success(data.size())
          None
        }
        override def failed(index: Int, cause: Throwable): Unit = chunk.failure(cause)
      })
    assertEquals(committed, await(answer))
    assertEquals(2L, await(chunk.future))
    assertFalse(asked.health.isSuspect(HostPort(service.host, service.port)))
  }

  @Test def `two applications with the same id from two masters stay separate`(): Unit = {
    val conf = new SparkConf(false).set("spark.app.id", "app-20261125-0000")
    def application(random: Long): Application = ServiceClient.applicationOf(conf, random)
    assertNotEquals(application(1), application(2))
    conf.set("spark.app.attempt.id", "3")
    assertEquals(Application("app-20261125-0000", 3), application(1))
  }
}
