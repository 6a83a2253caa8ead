// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.io.{DataInputStream, DataOutputStream, IOException}
import java.net.Socket
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import io.netty.buffer.Unpooled

import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.network.protocol.UploadStream
import org.apache.spark.network.shuffle.protocol.PushBlockStream

/** A push on a connection of its own that stops in the middle: Spark's client sends it whole. */
private[level0] final class HeldPush(
    service: Service,
    message: PushBlockStream,
    bytes: Array[Byte]) {
  private val socket = new Socket(service.host, service.port)
  socket.setSoTimeout(20000)
  socket.setTcpNoDelay(true)
  private val out = new DataOutputStream(socket.getOutputStream)
  private var sent = 0

  /** Sends the beginning, and returns when the service works on it. */
  def begin(count: Int): Unit = {
    service.watch(message)
    out.write(header())
    send(count)
    service.awaitBytes(message, count.toLong)
  }

  /** Sends the rest, and returns the answer. */
  def finish(): Answer =
    try {
      send(bytes.length - sent)
      answer()
    } catch {
      // The service has closed the connection.
      case ended: IOException => Answer.Broken(ended.toString)
    } finally end()

  /** Closes the connection, and returns when the service knows it. */
  def tear(): Answer = {
    socket.close()
    service.awaitTorn(message)
    end()
    Answer.Done
  }

  private def end(): Unit = {
    service.forget(message)
    socket.close()
  }

  private def send(count: Int): Unit = {
    out.write(bytes, sent, count)
    out.flush()
    sent += count
  }

  private def header(): Array[Byte] = {
    val body = new NioManagedBuffer(ByteBuffer.wrap(bytes))
    val upload = new UploadStream(1, new NioManagedBuffer(message.toByteBuffer), body)
    val frame = Unpooled.buffer()
    // The length counts itself and the type, and not the body.
    frame.writeLong(8L + upload.`type`().encodedLength() + upload.encodedLength())
    upload.`type`().encode(frame)
    upload.encode(frame)
    val encoded = new Array[Byte](frame.readableBytes())
    frame.readBytes(encoded)
    encoded
  }

  /** An `RpcResponse` with a code, or an `RpcFailure` with a text. */
  private def answer(): Answer = {
    val in = new DataInputStream(socket.getInputStream)
    val frame = new Array[Byte]((in.readLong() - 8).toInt)
    in.readFully(frame)
    val fields = ByteBuffer.wrap(frame)
    val kind = fields.get()
    require(fields.getLong() == 1L, "the answer is for another request")
    val length = fields.getInt()
    if (kind == HeldPush.RpcResponse) Requests.codeOf(fields.slice())
    else {
      require(kind == HeldPush.RpcFailure, s"a frame of type $kind is no answer to a push")
      Answer.Failed(new String(frame, frame.length - length, length, UTF_8))
    }
  }
}

private object HeldPush {
  val RpcResponse: Byte = 4
  val RpcFailure: Byte = 5
}
