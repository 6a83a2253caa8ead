// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import java.io.{ByteArrayOutputStream, DataOutputStream, EOFException, InputStream}
import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer
import scala.reflect.ClassTag

import org.apache.gluten.config.{ShuffleWriterType, SortShuffleWriterType}
import org.apache.gluten.vectorized.ColumnarBatchSerializerInstance

import org.apache.spark.serializer.{DeserializationStream, Serializer, SerializerInstance}
import org.apache.spark.shuffle.lodestone.engine.FakeNative
import org.apache.spark.storage.BlockId

/** Frames with the dependencies that those of Velox have. */
private[gluten] object VeloxFrames {
  val Plain = 1
  val Dictionary = 2
  val DictionaryPayload = 3

  /** Kind, number of rows, and a length: what a frame of one text has beside it. */
  val PlainHead = 9

  def plain(texts: Seq[String]): Array[Byte] = written { out =>
    out.write(Plain)
    out.writeInt(texts.size)
    texts.foreach(writeText(out, _))
  }

  /** A payload is of no use without the dictionary before it. */
  def withDictionary(texts: Seq[String]): Array[Byte] = written { out =>
    val words = texts.distinct
    val places = words.zipWithIndex.toMap
    out.write(Dictionary)
    out.writeInt(words.size)
    words.foreach(writeText(out, _))
    for (some <- texts.grouped(50)) {
      out.write(DictionaryPayload)
      out.writeInt(some.size)
      some.foreach(text => out.writeInt(places(text)))
    }
  }

  /** Frames of the sort writer are whole rows. */
  def rows(texts: Seq[String]): Array[Byte] = written(out => texts.foreach(writeText(out, _)))

  private def writeText(out: DataOutputStream, text: String): Unit = {
    val bytes = text.getBytes("UTF-8")
    out.writeInt(bytes.length)
    out.write(bytes)
  }

  private def written(write: DataOutputStream => Unit): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    write(new DataOutputStream(bytes))
    bytes.toByteArray
  }
}

/**
 * The serializer of a columnar shuffle, as Gluten's. Batches are texts, one after another.
 *
 * @param leavesAt
 *   native code takes this text for the last one of its stream, which is a mistake
 */
private[gluten] final class VeloxSerializer(of: ShuffleWriterType, leavesAt: Option[String] = None)
    extends Serializer
    with Serializable {
  override def supportsRelocationOfSerializedObjects: Boolean = true

  override def newInstance(): SerializerInstance = new ColumnarBatchSerializerInstance {
    override def deserializeStreams(streams: Iterator[(BlockId, InputStream)])
        : DeserializationStream =
      new VeloxBatches(new VeloxReader(streams, of == SortShuffleWriterType, leavesAt))

    override def deserializeStream(in: InputStream): DeserializationStream =
      deserializeStreams(Iterator((null, in)))
  }
}

private final class VeloxBatches(reader: VeloxReader) extends DeserializationStream {
  override def readKey[T: ClassTag](): T = null.asInstanceOf[T]

  /** On a thread that is not the task's, as Velox may. */
  override def readValue[T: ClassTag](): T = {
    val batch = FakeNative.onOwnThread(() => reader.next())
    if (batch == null) throw new EOFException
    batch.asInstanceOf[T]
  }

  override def readObject[T: ClassTag](): T = throw new UnsupportedOperationException

  override def close(): Unit = reader.close()
}

/** The native reader, with Gluten's `ShuffleStreamReader` in it, which closes before it goes on. */
private final class VeloxReader(
    streams: Iterator[(BlockId, InputStream)],
    isSort: Boolean,
    leavesAt: Option[String]) {
  private var in: InputStream = _
  private var words = Seq.empty[String]

  /** After the last stream there is no call of Java any more. */
  private var isOver = false

  /** Returns the texts of a batch, or null behind the last one. */
  def next(): Seq[String] = {
    if (in == null && !isOver) open()
    if (isSort) nextRows() else nextFrame()
  }

  private def nextFrame(): Seq[String] = {
    var texts: Seq[String] = null
    while (!isOver && texts == null) {
      texts = readFrame()
      if (texts == null || leavesAt.exists(texts.contains)) open()
    }
    texts
  }

  /** Rows are read over all streams until a batch is full: the last one comes after their end. */
  private def nextRows(): Seq[String] = {
    val rows = ArrayBuffer.empty[String]
    while (!isOver && rows.size < VeloxReader.BatchRows) {
      readRow() match {
        case Some(row) => rows += row
        case None => open()
      }
    }
    if (rows.isEmpty) null else rows.toSeq
  }

  def close(): Unit = if (in != null) in.close()

  private def open(): Unit = {
    close()
    isOver = !streams.hasNext
    in = if (isOver) null else streams.next()._2
  }

  private def readFrame(): Seq[String] = {
    val kind = new Array[Byte](1)
    val isThere = read(kind) > 0
    if (!isThere) null
    else if (kind(0) == VeloxFrames.Plain) {
      words = Nil
      texts(readInt())
    } else if (kind(0) == VeloxFrames.Dictionary) {
      words = texts(readInt())
      Nil
    } else if (kind(0) == VeloxFrames.DictionaryPayload && words.nonEmpty) {
      Seq.fill(readInt())(words(readInt()))
    } else throw new VeloxException(s"unsupported block type ${kind(0)}")
  }

  private def texts(count: Int): Seq[String] = Seq.fill(count)(readText(readInt()))

  private def readRow(): Option[String] = {
    val head = new Array[Byte](Integer.BYTES)
    if (read(head) == 0) None else Some(readText(ByteBuffer.wrap(head).getInt))
  }

  private def readText(length: Int): String = {
    val bytes = new Array[Byte](length)
    read(bytes)
    new String(bytes, "UTF-8")
  }

  private def readInt(): Int = {
    val bytes = new Array[Byte](Integer.BYTES)
    read(bytes)
    ByteBuffer.wrap(bytes).getInt
  }

  /** One call, whose answer native code takes for all bytes, or for the end if it is none. */
  private def read(bytes: Array[Byte]): Int = {
    val count = math.max(0, in.read(bytes))
    if (count > 0 && count < bytes.length) throw new VeloxException("undefined behaviour")
    count
  }
}

private object VeloxReader {

  /** As `spark.gluten.sql.columnar.maxBatchSize`. */
  val BatchRows = 4096
}
