// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue}

import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{RpcResponseCallback, StreamCallbackWithID, TransportClient}
import org.apache.spark.network.server.{OneForOneStreamManager, RpcHandler, StreamManager}
import org.apache.spark.network.util.{MapConfigProvider, TransportConf}
import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.{Done, Message, PushBatch, PushBatchReply}
import org.apache.spark.shuffle.lodestone.wire.{RequestCodecs, Status}

/**
 * A service on a real socket that answers pushes as a test says, which a daemon cannot be asked to:
 * `answer` gets how many came before. It accepts each commit and abort.
 */
private[push] final class PushTarget(answer: (Int, PushBatch) => PushTarget.Reaction) {
  import PushTarget._

  val arrived = new LinkedBlockingQueue[(PushBatch, Array[Byte])]()

  /** Commits and aborts. */
  val ends = new LinkedBlockingQueue[Message]()
  private val closed = new CountDownLatch(1)
  private var count = 0
  private val context =
    new TransportContext(new TransportConf("test", MapConfigProvider.EMPTY), new Handler)
  private val server = context.createServer("127.0.0.1", 0, new java.util.ArrayList())

  val location: ServiceLocation = ServiceLocation("127.0.0.1", server.getPort, 7)

  def close(): Unit = {
    closed.countDown()
    server.close()
    context.close()
  }

  private final class Handler extends RpcHandler {
    override def receive(peer: TransportClient, in: ByteBuffer, out: RpcResponseCallback): Unit = {
      ends.add(RequestCodecs.decode(in))
      out.onSuccess(Done(location.incarnation).encode())
    }

    override def getStreamManager: StreamManager = new OneForOneStreamManager()

    override def receiveStream(
        peer: TransportClient,
        header: ByteBuffer,
        out: RpcResponseCallback): StreamCallbackWithID = new StreamCallbackWithID {
      private val batch = RequestCodecs.pushBatch.decode(header)
      private val body = new ByteArrayOutputStream
      private var reply = ByteBuffer.allocate(0)
      override def getID: String = "push"
      override def onData(id: String, data: ByteBuffer): Unit =
        while (data.hasRemaining) body.write(data.get().toInt)
      override def onFailure(id: String, cause: Throwable): Unit = ()
      override def onComplete(id: String): Unit = {
        val before = PushTarget.this.synchronized {
          count += 1
          count - 1
        }
        answer(before, batch) match {
          case Answer(message) => reply = message.encode()
          case HangUp => peer.getChannel.close()
          case Silence => closed.await()
        }
        arrived.add((batch, body.toByteArray))
      }

      /** Spark's server sends this when `onComplete` returns. */
      override def getCompletionResponse: ByteBuffer = reply
    }
  }
}

private[push] object PushTarget {
  sealed trait Reaction
  final case class Answer(message: Message) extends Reaction
  case object HangUp extends Reaction
  case object Silence extends Reaction

  /** Every segment gets this status. */
  def all(status: Status, batch: PushBatch): Reaction = {
    val isCommitted = batch.isWhole && status.isSuccess
    Answer(PushBatchReply(7, isCommitted, Array.fill(batch.segments.length)(status)))
  }
}
