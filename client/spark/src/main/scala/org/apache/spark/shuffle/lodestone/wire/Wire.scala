// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, StandardCharsets}

import scala.reflect.ClassTag

import io.netty.buffer.{ByteBuf, Unpooled}

/** The peer sent a message that docs/protocol.md does not allow. */
private[spark] final class MalformedMessageException(detail: String) extends IOException(detail)

/**
 * A message of the extension (docs/protocol.md, section 4). Its fields are written in the order of
 * its class.
 */
private[spark] abstract class Message(val typeId: Int) extends Product {

  final def encode(): ByteBuffer = {
    val out = new WireWriter
    out.byte(typeId)
    out.fields(this)
    out.result
  }
}

/** Reads an answer. A service reads the requests. */
private[spark] abstract class Codec[M <: Message](val typeId: Int) {
  private[wire] def read(in: WireReader): M

  /** Decodes a message. It must fill all of `bytes`. */
  final def decode(bytes: ByteBuffer): M = {
    val in = new WireReader(bytes)
    val found = in.byte()
    if (found != typeId) {
      throw new MalformedMessageException(s"the message has type $found, but should have $typeId")
    }
    in.whole(read(in))
  }

  /** Decodes like [[decode]], but throws a refusal that arrives in place of the message. */
  final def decodeReply(bytes: ByteBuffer): M = {
    if (bytes.hasRemaining && bytes.get(bytes.position()) == Refused.typeId) {
      throw new RefusedException(Refused.decode(bytes))
    }
    decode(bytes)
  }
}

/** Values that travel as one byte. */
private[spark] trait WireCode {
  def code: Byte
}

private[wire] final class WireWriter {
  private val out: ByteBuf = Unpooled.buffer()

  def byte(value: Int): Unit = out.writeByte(value)

  def fields(parts: Product): Unit = parts.productIterator.foreach(value)

  private def value(field: Any): Unit = field match {
    case number: Int => out.writeInt(number)
    case number: Long => out.writeLong(number)
    case number: Byte => out.writeByte(number.toInt)
    case flag: Boolean => out.writeByte(if (flag) 1 else 0)
    case coded: WireCode => out.writeByte(coded.code.toInt)
    case text: String => seq(text.getBytes(StandardCharsets.UTF_8))
    case many: Array[_] => seq(many)
    case parts: Product => fields(parts)
    case other => throw new AssertionError(s"$other cannot be a field of a message")
  }

  private def seq(many: Array[_]): Unit = {
    out.writeInt(many.length)
    many match {
      case bytes: Array[Byte] => out.writeBytes(bytes)
      case segments: Array[Segment] => segments.foreach(segment)
      case others => others.foreach(value)
    }
  }

  /** Writes without boxes, because a batch may have 65,536 segments. */
  private def segment(one: Segment): Unit = {
    out.writeInt(one.reduceId)
    out.writeInt(one.sequence)
    out.writeInt(one.length)
    out.writeInt(one.records)
    out.writeInt(one.crc32c)
  }

  def result: ByteBuffer = out.nioBuffer()
}

/** Reads fields. It checks each length against the remaining bytes before it allocates memory. */
private[wire] final class WireReader(source: ByteBuffer) {
  private val in = source.duplicate()

  def byte(): Byte = need(1).get()
  def int(): Int = need(4).getInt()
  def long(): Long = need(8).getLong()

  def bool(): Boolean = byte() match {
    case 0 => false
    case 1 => true
    case other => throw new MalformedMessageException(s"$other is neither 0 nor 1")
  }

  def bytes(): Array[Byte] = {
    val value = new Array[Byte](count(1))
    in.get(value)
    value
  }

  def string(): String =
    try {
      StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes())).toString
    } catch {
      case _: CharacterCodingException =>
        throw new MalformedMessageException("a string is not UTF-8")
    }

  /** Reads an array whose elements have at least `minBytes` each. */
  def seq[T: ClassTag](minBytes: Int)(one: => T): Array[T] = {
    val n = count(minBytes)
    Array.fill(n)(one)
  }

  def whole[T](message: T): T = {
    if (in.hasRemaining) {
      throw new MalformedMessageException(s"${in.remaining()} bytes follow the message")
    }
    message
  }

  private def count(minBytes: Int): Int = {
    val n = int()
    if (n < 0 || n.toLong * minBytes > in.remaining()) {
      throw new MalformedMessageException(s"the count is $n, but ${in.remaining()} bytes are left")
    }
    n
  }

  private def need(n: Int): ByteBuffer = {
    if (in.remaining() < n) {
      throw new MalformedMessageException(s"a field has $n bytes, but ${in.remaining()} are left")
    }
    in
  }
}
