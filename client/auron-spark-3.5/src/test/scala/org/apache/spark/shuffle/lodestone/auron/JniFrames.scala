// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import java.io.{DataInputStream, EOFException, InputStream, IOException}
import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.channels.ReadableByteChannel

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.engine.{FramePush, FrameReservation}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.TestFrames

/**
 * The native side of Auron, as far as the JVM sees it: it calls methods by the names and signatures
 * that `jni_bridge.rs` has. A frame is a length, from its least byte on, and a body.
 */
private[auron] object JniFrames {
  private val Shuffle = "org/apache/spark/sql/execution/auron/shuffle"
  private val HeadBytes = 4

  def method(owner: String, name: String, returns: Class[_], takes: Class[_]*): MethodHandle =
    MethodHandles.publicLookup().findVirtual(
      Class.forName(owner.replace('/', '.')),
      name,
      MethodType.methodType(returns, takes.toArray[Class[_]]))

  private val getResource = MethodHandles.publicLookup().findStatic(
    Class.forName("org.apache.auron.jni.JniBridge"),
    "getResource",
    MethodType.methodType(classOf[Object], classOf[String]))
  val write: MethodHandle = method(
    s"$Shuffle/RssPartitionWriterBase",
    "write",
    Void.TYPE,
    Integer.TYPE,
    classOf[ByteBuffer])
  val flush: MethodHandle = method(s"$Shuffle/RssPartitionWriterBase", "flush", Void.TYPE)
  private val hasNext = method("scala/collection/Iterator", "hasNext", java.lang.Boolean.TYPE)
  private val next = method("scala/collection/Iterator", "next", classOf[Object])
  private def ofBlock(name: String, returns: Class[_], takes: Class[_]*) =
    method(s"$Shuffle/BlockObject", name, returns, takes: _*)
  private val hasFileSegment = ofBlock("hasFileSegment", java.lang.Boolean.TYPE)
  private val hasByteBuffer = ofBlock("hasByteBuffer", java.lang.Boolean.TYPE)
  private val getChannel = ofBlock("getChannel", classOf[ReadableByteChannel])
  private val throwFetchFailed = ofBlock("throwFetchFailed", Void.TYPE, classOf[String])

  def resource(name: String): AnyRef = getResource.invokeWithArguments(name)

  def of(text: String): Array[Byte] = {
    val body = TestFrames.of(text)
    val frame = ByteBuffer.allocate(HeadBytes + body.length).order(ByteOrder.LITTLE_ENDIAN)
    frame.putInt(body.length).put(body).array
  }

  /** Returns the texts of all blocks. */
  def decode(blocks: AnyRef): Seq[String] = {
    val texts = ArrayBuffer.empty[String]
    while (isTrue(hasNext, blocks)) {
      val block = next.invokeWithArguments(blocks)
      require(!isTrue(hasFileSegment, block) && !isTrue(hasByteBuffer, block))
      val channel = getChannel.invokeWithArguments(block).asInstanceOf[ReadableByteChannel]
      val in = new NativeInput(channel)
      try {
        decode(in, texts)
      } catch {
        // Native code does so for each failure (`ipc_reader_exec.rs`).
        case NonFatal(failure) =>
          throwFetchFailed.invokeWithArguments(block, failure.toString)
          throw new IllegalStateException("it has to throw", failure)
      } finally {
        channel.close()
      }
    }
    texts.toSeq
  }

  private def decode(in: InputStream, texts: ArrayBuffer[String]): Unit = {
    val head = new Array[Byte](HeadBytes)
    while (in.readNBytes(head, 0, HeadBytes) == HeadBytes) {
      val length = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN).getInt()
      if (length < TestFrames.headBytes) throw new IOException(s"a frame of $length bytes")
      val data = new DataInputStream(in)
      if (data.read() != 'F') throw new IOException("no frame")
      val text = new Array[Byte](data.readInt())
      if (text.length != length - TestFrames.headBytes) throw new EOFException("a cut frame")
      data.readFully(text)
      texts += new String(text, "UTF-8")
    }
  }

  private def isTrue(method: MethodHandle, of: AnyRef): Boolean =
    method.invokeWithArguments(of).asInstanceOf[Boolean]
}

/** Reads a channel through memory of its own, until that is full. */
private final class NativeInput(channel: ReadableByteChannel) extends InputStream {
  private val memory = ByteBuffer.allocateDirect(64 << 10)
  private var isOver = false
  memory.limit(0)

  override def read(): Int = if (fill()) memory.get() & 0xff else -1

  override def read(target: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (!fill()) -1
    else {
      val some = math.min(length, memory.remaining())
      memory.get(target, offset, some)
      some
    }

  private def fill(): Boolean = {
    if (!memory.hasRemaining && !isOver) {
      memory.clear()
      while (memory.hasRemaining && !isOver) isOver = channel.read(memory) < 0
      memory.flip()
    }
    memory.hasRemaining
  }
}

/** Lends its memory to each call, and writes over it when the call returns. */
private[auron] final class JniPush(writer: AnyRef) extends FramePush {
  private val memory = ThreadLocal.withInitial[ByteBuffer](() => ByteBuffer.allocateDirect(64))

  override def push(partition: Int, bytes: Array[Byte], offset: Int, length: Int): Unit =
    push(partition, ByteBuffer.wrap(bytes, offset, length))

  override def push(partition: Int, frame: ByteBuffer): Unit = {
    val bytes = frame.duplicate()
    val isCut = bytes.remaining() == JniFrames.of(FakeAuron.Cut).length &&
      bytes.duplicate() == ByteBuffer.wrap(JniFrames.of(FakeAuron.Cut))
    if (isCut) bytes.limit(bytes.limit() - 1)
    lend(partition, bytes)
  }

  private def lend(partition: Int, bytes: ByteBuffer): Unit = {
    if (memory.get.capacity < bytes.remaining()) {
      memory.set(ByteBuffer.allocateDirect(bytes.remaining()))
    }
    val lent = memory.get.duplicate()
    lent.clear()
    lent.put(bytes).flip()
    JniFrames.write.invokeWithArguments(writer, Int.box(partition), lent.slice())
    lent.clear()
    while (lent.hasRemaining) lent.put(0xee.toByte)
  }

  def flush(): Unit = {
    JniFrames.flush.invokeWithArguments(writer)
    ()
  }

  override def reserve(maxLength: Int): FrameReservation = () => ()

  override def partitionLengths(): Array[Long] = throw new UnsupportedOperationException

  override def commit(): MapStatus = throw new UnsupportedOperationException

  override def abort(): Unit = throw new UnsupportedOperationException

  override def causeOf(thrown: Throwable): Throwable = thrown
}
