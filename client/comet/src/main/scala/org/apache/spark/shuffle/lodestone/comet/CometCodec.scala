// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import java.io.InputStream
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.charset.StandardCharsets.US_ASCII
import java.util.Properties

import org.apache.spark.{ShuffleDependency, SPARK_VERSION}
import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{
  FrameCodec,
  FrameDecoder,
  FrameRecords
}
import org.apache.spark.shuffle.lodestone.plan.BlockFormat
import org.apache.spark.sql.comet.execution.shuffle.{CometShuffleDependency, CometShuffleManager}
import org.apache.spark.sql.vectorized.ColumnarBatch

/** The frames of Comet: a head, and a stream of Arrow IPC with one batch, compressed. */
private[comet] object CometCodec extends FrameCodec {
  import CometRelease.{Release, SparkLine}

  override val format: BlockFormat.EngineFrames = BlockFormat.EngineFrames(s"comet-$Release")

  override def decoder(dependency: ShuffleDependency[_, _, _]): FrameDecoder = dependency match {
    case comets: CometShuffleDependency[_, _, _] => new CometDecoder(comets)
    case other =>
      throw new IllegalStateException(s"shuffle ${other.shuffleId} is not one of Comet's")
  }

  /**
   * Another release may have other frames and other classes, which the two names are not: they are
   * constants, and need none of Comet's classes.
   */
  def checkRelease(): Unit =
    if (!found.startsWith(s"$Release.") || !SPARK_VERSION.startsWith(s"$SparkLine.")) {
      throw new IllegalStateException(
        s"this jar of Lodestone is for Comet $Release on Spark $SparkLine, and Comet $found and " +
          s"Spark $SPARK_VERSION are on the class path")
    }

  /** The release as Comet's own jar has it. */
  private def found: String = {
    val properties = new Properties
    val file =
      classOf[CometShuffleManager].getClassLoader.getResourceAsStream("comet-git-info.properties")
    if (file != null) {
      try properties.load(file)
      finally file.close()
    }
    properties.getProperty("git.build.version", "of an unknown release")
  }
}

private final class CometDecoder(dependency: CometShuffleDependency[_, _, _])
    extends FrameDecoder {
  import CometDecoder._

  private val columns =
    dependency.schema.fold(dependency.outputAttributes.size)(_.size).toLong

  override val headBytes: Int = HeadBytes

  override def bodyBytes(head: ByteBuffer): Int = {
    val bytes = head.duplicate().order(ByteOrder.LITTLE_ENDIAN)
    val length = bytes.getLong() - (HeadBytes - LengthBytes)
    val found = bytes.getLong()
    val codec = new Array[Byte](CodecBytes)
    bytes.get(codec)
    if (length < 0 || length > Int.MaxValue - HeadBytes) fail(s"a frame of $length bytes")
    if (found != columns) fail(s"a frame of $found columns where there are $columns")
    if (!Codecs.contains(new String(codec, US_ASCII))) fail("a frame with an unknown codec")
    length.toInt
  }

  override def decode(frames: InputStream): FrameRecords =
    new CometRecords(new CometBatches(frames, dependency.decodeTime))

  private def fail(what: String): Nothing = throw new BrokenRowsException(s"Comet's frames: $what")
}

private object CometDecoder {

  /** The length is that of all bytes behind it. */
  private val LengthBytes = 8
  private val CodecBytes = 4

  /** Length, number of columns, codec. */
  private val HeadBytes = LengthBytes + 8 + CodecBytes
  private val Codecs = Set("LZ4_", "ZSTD", "SNAP", "NONE")
}

/** Batches, with the key that Comet's own reader gives them. */
private final class CometRecords(batches: CometBatches) extends FrameRecords {
  override def hasNext: Boolean = batches.hasNext

  override def next(): (Any, Any) = (0, batches.next())

  override def rowsIn(record: (Any, Any)): Int = record._2.asInstanceOf[ColumnarBatch].numRows()

  override def close(): Unit = batches.close()
}
