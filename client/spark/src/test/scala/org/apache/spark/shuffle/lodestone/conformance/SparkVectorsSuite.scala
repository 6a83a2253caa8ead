// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.conformance

import java.nio.ByteBuffer
import java.util.{ArrayList => JArrayList}

import io.netty.buffer.Unpooled
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Assertions._

import org.apache.spark.network.protocol.{Message, MessageDecoder}
import org.apache.spark.network.shuffle.protocol.BlockTransferMessage
import org.apache.spark.shuffle.lodestone.GoldenVectors

/**
 * Compares the bytes that the daemon's tests use as Spark's with the Spark release of this module.
 */
class SparkVectorsSuite {

  private val vectors = GoldenVectors.read("spark-messages.txt")
  private val (frames, others) = vectors.partition(_._1.startsWith("Frame."))

  /** Handshakes have decoders of their own, which `AuthenticatedClientSuite` uses. */
  private val handshakes = Set("SaslMessage", "SaslMessageFirst", "AuthMessage")
  private val messages = others.filterNot { case (name, _) =>
    name.contains("bitmap") || handshakes.contains(name)
  }

  @Test def `Spark reads each message and writes it back to the same bytes`(): Unit = {
    assertTrue(messages.size > 15, s"${messages.size} messages")
    messages.foreach { case (name, bytes) =>
      val decoded = BlockTransferMessage.Decoder.fromByteBuffer(ByteBuffer.wrap(bytes))
      assertEquals(ByteBuffer.wrap(bytes), decoded.toByteBuffer, name)
    }
  }

  @Test def `Spark reads each frame and writes its header back to the same bytes`(): Unit = {
    assertTrue(frames.size > 10, s"${frames.size} frames")
    frames.foreach { case (name, bytes) =>
      val decoded = new JArrayList[AnyRef]()
      val wire = Unpooled.wrappedBuffer(bytes)
      val frameLength = wire.readLong()
      // The body of an upload or a stream follows the frame.
      val frame = wire.readSlice(frameLength.toInt - LengthBytes)
      MessageDecoder.INSTANCE.decode(null, frame.retain(), decoded)
      val message = decoded.get(0).asInstanceOf[Message]
      val header = Unpooled.buffer()
      header.writeLong(frameLength)
      message.`type`().encode(header)
      message.encode(header)
      val expected = bytes.take(header.readableBytes())
      assertArrayEquals(expected, io.netty.buffer.ByteBufUtil.getBytes(header), name)
    }
  }

  private val LengthBytes = 8
}
