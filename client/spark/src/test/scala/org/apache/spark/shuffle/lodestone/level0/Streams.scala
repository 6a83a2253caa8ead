// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletableFuture.completedFuture

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.{ChunkReceivedCallback, RpcResponseCallback}
import org.apache.spark.network.client.{StreamCallback, TransportClient}
import org.apache.spark.network.shuffle.protocol.{BlockTransferMessage, StreamHandle}

/** Opens streams of blocks, and reads them. */
private[level0] object Streams {
  import Answer._

  /**
   * Opens a stream and asks for all of its blocks at once, as Spark does. The answer has a part for
   * each block, or is that of the service that opens no such stream.
   */
  def blocks(
      client: TransportClient,
      message: BlockTransferMessage,
      asStreams: Boolean = false): CompletableFuture[Answer] =
    opened(client, message) { handle =>
      val numbers = 0 until handle.numChunks
      Requests.each(numbers.map(number =>
        if (asStreams) stream(client, handle, number) else chunk(client, handle, number)))
    }

  /** Asks for the second block, and after its answer for the first one: both answers in order. */
  def outOfOrder(client: TransportClient, message: BlockTransferMessage)
      : CompletableFuture[Answer] = opened(client, message) { handle =>
    chunk(client, handle, 1).thenCompose[Answer] { second =>
      chunk(client, handle, 0).thenApply[Answer](first => Each(Seq(first, second)))
    }
  }

  private def opened(client: TransportClient, message: BlockTransferMessage)(
      read: StreamHandle => CompletableFuture[Answer]): CompletableFuture[Answer] = {
    val handle = new CompletableFuture[Either[Answer, StreamHandle]]
    client.sendRpc(
      message.toByteBuffer,
      new RpcResponseCallback {
        override def onSuccess(response: ByteBuffer): Unit = {
          handle.complete(Right(Requests.decoded[StreamHandle](response)))
        }
        override def onFailure(cause: Throwable): Unit = {
          handle.complete(Left(Service.failure(cause)))
        }
      })
    handle.thenCompose[Answer] {
      case Left(refusal) => completedFuture(refusal)
      case Right(open) => read(open)
    }
  }

  private def chunk(client: TransportClient, handle: StreamHandle, number: Int)
      : CompletableFuture[Answer] = {
    val done = new CompletableFuture[Answer]
    client.fetchChunk(
      handle.streamId,
      number,
      new ChunkReceivedCallback {
        override def onSuccess(number: Int, bytes: ManagedBuffer): Unit =
          Service.complete(done)(Block(copy(bytes.nioByteBuffer())))
        override def onFailure(number: Int, cause: Throwable): Unit = {
          done.complete(Service.failure(cause))
        }
      })
    done
  }

  /** As Spark reads a large block, to a file. */
  private def stream(client: TransportClient, handle: StreamHandle, number: Int)
      : CompletableFuture[Answer] = {
    val done = new CompletableFuture[Answer]
    val received = new ByteArrayOutputStream
    client.stream(
      s"${handle.streamId}_$number",
      new StreamCallback {
        override def onData(id: String, bytes: ByteBuffer): Unit = received.write(copy(bytes))
        override def onComplete(id: String): Unit = {
          done.complete(Block(received.toByteArray))
        }
        override def onFailure(id: String, cause: Throwable): Unit = {
          done.complete(Service.failure(cause))
        }
      })
    done
  }

  private def copy(bytes: ByteBuffer): Array[Byte] = {
    val copied = new Array[Byte](bytes.remaining())
    bytes.get(copied)
    copied
  }
}
