// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.frames

import java.io.InputStream
import java.nio.ByteBuffer

import org.apache.spark.ShuffleDependency
import org.apache.spark.shuffle.lodestone.plan.BlockFormat

/**
 * The codec of an engine whose blocks are sequences of frames. Frames of several blocks, one after
 * another, are decoded as one stream.
 */
private[lodestone] trait FrameCodec {

  /** Its name has the release of the engine: one release need not decode the frames of another. */
  def format: BlockFormat.EngineFrames

  /** Returns the decoder of a shuffle that the engine has made. */
  def decoder(dependency: ShuffleDependency[_, _, _]): FrameDecoder

  /** Returns what the heads of its frames say, if that is known without the engine. */
  def heads(dependency: ShuffleDependency[_, _, _]): Option[FrameHeads] = Some(decoder(dependency))
}

/** The codec of an engine that decodes by itself, in native code. */
private[lodestone] final class NativeFrames(name: String) extends FrameCodec {
  override val format: BlockFormat.EngineFrames = BlockFormat.EngineFrames(name)

  override def decoder(dependency: ShuffleDependency[_, _, _]): FrameDecoder =
    throw new IllegalStateException(s"native code decodes the frames of $name")

  override def heads(dependency: ShuffleDependency[_, _, _]): Option[FrameHeads] = None
}

/** The heads of the frames of one shuffle. */
private[lodestone] trait FrameHeads {

  /** The size of a frame's head. */
  def headBytes: Int

  /**
   * Returns the number of bytes behind a head. It throws `BrokenRowsException` if the bytes are no
   * head of this shuffle.
   */
  def bodyBytes(head: ByteBuffer): Int
}

/** Decodes the frames of one shuffle. */
private[lodestone] trait FrameDecoder extends FrameHeads {

  /** Decodes whole frames up to the end of the stream. */
  def decode(frames: InputStream): FrameRecords
}

/** The records of frames. A record may have many rows. It is valid until the next one is wanted. */
private[lodestone] trait FrameRecords extends Iterator[(Any, Any)] {
  def rowsIn(record: (Any, Any)): Int

  /** Gives memory back, also in the middle. Callers may call it repeatedly. */
  def close(): Unit
}
