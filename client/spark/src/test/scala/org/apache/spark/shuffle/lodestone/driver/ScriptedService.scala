// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.nio.ByteBuffer
import java.util.Collections
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch}
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}
import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.network.TransportContext
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.server.{OneForOneStreamManager, RpcHandler, StreamManager}
import org.apache.spark.network.shuffle.protocol.{BlockTransferMessage, RemoveShuffleMerge}
import org.apache.spark.network.util.{MapConfigProvider, TransportConf}
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.BlockFormat
import org.apache.spark.shuffle.lodestone.wire.{Done, Hello, HelloReply, LaidRun, LeaseReply, Load}
import org.apache.spark.shuffle.lodestone.wire.{Message, OpenStream, PartitionLayout, RenewLease}
import org.apache.spark.shuffle.lodestone.wire.{RequestCodecs, SegmentLayout, SegmentLayoutReply}
import org.apache.spark.shuffle.lodestone.wire.Status

/**
 * A service on a real socket that fails as a test demands, which a daemon cannot do. It answers all
 * other requests like a healthy daemon.
 */
private[lodestone] final class ScriptedService(
    val incarnation: Long,
    port: Int = 0,
    host: String = "127.0.0.1") {
  import ScriptedService._

  private val script = new AtomicReference[Script](PartialFunction.empty)
  private val arrived = new LinkedBlockingQueue[AnyRef]()
  private val kinds = new ConcurrentLinkedQueue[Class[_]]()
  private val peers = new ConcurrentLinkedQueue[TransportClient]()
  private val context =
    new TransportContext(new TransportConf("test", MapConfigProvider.EMPTY), new Handler)
  private val streams = new OneForOneStreamManager()
  private val server = context.createServer(host, port, new java.util.ArrayList())

  val address: HostPort = HostPort(host, server.getPort)

  def answering(newScript: Script): ScriptedService = {
    script.set(newScript)
    this
  }

  /** Returns the next request of this kind, and skips others before it. */
  def next[T <: AnyRef](kind: Class[T]): T = {
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WaitS)
    var found: Option[T] = None
    while (found.isEmpty) {
      val message = arrived.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)
      assert(message != null, s"no ${kind.getSimpleName} arrived at $address")
      found = Some(message).filter(kind.isInstance).map(kind.cast)
    }
    found.get
  }

  /** Requests of this kind that have arrived and were not taken by [[next]]. */
  def count(kind: Class[_]): Int = arrived.stream().filter(kind.isInstance(_)).count().toInt

  /** Requests of this kind that have arrived. */
  def seen(kind: Class[_]): Int = kinds.stream().filter(kind == _).count().toInt

  /** Returns when nobody can get an answer any more: Spark's server closes connections later. */
  def close(): Unit = {
    server.close()
    peers.forEach { peer =>
      peer.getChannel.close().awaitUninterruptibly()
      ()
    }
    context.close()
  }

  private def usual(message: Message): Message = message match {
    case _: Hello => HelloReply(1, "test", incarnation, Healthy)
    case lease: RenewLease => LeaseReply(incarnation, lease.ttlMs, Healthy)
    case asked: SegmentLayout =>
      val nothing = asked.reduceIds.map(PartitionLayout(_, Status.Ok, Array.empty[LaidRun]))
      SegmentLayoutReply(incarnation, BlockFormat.SparkStream.name, nothing)
    case _ => Done(incarnation)
  }

  private final class Handler extends RpcHandler {
    override def channelActive(peer: TransportClient): Unit = {
      peers.add(peer)
      ()
    }

    override def receive(peer: TransportClient, in: ByteBuffer, out: RpcResponseCallback): Unit = {
      val message = RequestCodecs.decode(in)
      kinds.add(message.getClass)
      arrived.add(message)
      val answer = script.get.applyOrElse(message, (other: Message) => Answer(usual(other)))
      answer match {
        case Answer(reply) => out.onSuccess(reply.encode())
        case AnswerAfter(gate, reply) =>
          val waiting = new Thread(() => {
            gate.await(WaitS, TimeUnit.SECONDS)
            out.onSuccess(reply.encode())
          })
          waiting.setDaemon(true)
          waiting.start()
        case Serve(chunk) =>
          val chunks = Collections.singleton[ManagedBuffer](new NioManagedBuffer(chunk.duplicate()))
          val id = streams.registerStream("test", chunks.iterator(), peer.getChannel)
          out.onSuccess(OpenStream(id, numChunks = 1).encode())
        case Refuse(text) =>
          val chunks = new java.util.Iterator[ManagedBuffer] {
            override def hasNext: Boolean = true
            override def next(): ManagedBuffer = throw new IllegalStateException(text)
          }
          val id = streams.registerStream("test", chunks, peer.getChannel)
          out.onSuccess(OpenStream(id, numChunks = 1).encode())
        case HangUp => peer.getChannel.close()
        case Silence =>
      }
    }

    override def receive(peer: TransportClient, in: ByteBuffer): Unit =
      BlockTransferMessage.Decoder.fromByteBuffer(in) match {
        case remove: RemoveShuffleMerge => arrived.add(remove)
        case other => throw new IllegalStateException(s"$other is not sent one-way")
      }

    override def getStreamManager: StreamManager = streams
  }
}

private[lodestone] object ScriptedService {
  private val WaitS = 20L

  val Healthy: Load = Load(Load.Serving, 1, 2, 3L << 40, 4L << 40, 5, 6)

  sealed trait Reaction
  final case class Answer(message: Message) extends Reaction
  final case class AnswerAfter(gate: CountDownLatch, message: Message) extends Reaction

  /** Opens a stream of this chunk. */
  final case class Serve(chunk: ByteBuffer) extends Reaction

  /** Opens a stream whose chunk is refused with this text. */
  final case class Refuse(text: String) extends Reaction
  case object HangUp extends Reaction
  case object Silence extends Reaction

  type Script = PartialFunction[Message, Reaction]
}
