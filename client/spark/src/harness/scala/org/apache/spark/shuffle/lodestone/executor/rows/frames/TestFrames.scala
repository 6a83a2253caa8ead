// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.frames

import java.io.{DataInputStream, InputStream}
import java.nio.ByteBuffer

import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException

/** The simplest engine: a frame has the sign `F`, the size of its text in four bytes, its text. */
object TestFrames extends FrameDecoder {
  private val Sign = 'F'.toByte

  def of(texts: String*): Array[Byte] = {
    val all = texts.map(_.getBytes("UTF-8"))
    val frames = ByteBuffer.allocate(all.map(headBytes + _.length).sum)
    all.foreach(bytes => frames.put(Sign).putInt(bytes.length).put(bytes))
    frames.array
  }

  override def headBytes: Int = 5

  override def bodyBytes(head: ByteBuffer): Int = {
    if (head.get() != Sign) throw new BrokenRowsException("no frame")
    head.getInt()
  }

  /** Like an engine, it trusts its bytes. */
  override def decode(frames: InputStream): FrameRecords = new FrameRecords {
    private val in = new DataInputStream(frames)
    private var left = in.read()

    override def hasNext: Boolean = left >= 0

    override def next(): (Any, Any) = {
      val text = new Array[Byte](in.readInt())
      in.readFully(text)
      left = in.read()
      (0, new String(text, "UTF-8"))
    }

    /** One for each letter. */
    override def rowsIn(record: (Any, Any)): Int = record._2.toString.length

    override def close(): Unit = frames.close()
  }
}
