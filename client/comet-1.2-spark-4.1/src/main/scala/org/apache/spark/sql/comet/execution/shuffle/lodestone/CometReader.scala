// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.comet.execution.shuffle.lodestone

import java.io.InputStream

import org.apache.spark.shuffle.ShuffleReader
import org.apache.spark.shuffle.lodestone.engine.{EngineBlock, EngineReader}
import org.apache.spark.sql.comet.execution.shuffle.CometShuffleReader

/**
 * Reads a shuffle of Comet. Operators of Spark read batches. Operators of Comet read frames, which
 * their native code decodes.
 *
 * @param records
 *   reads batches, or is Comet's own reader of a shuffle that is left to it
 * @param blocks
 *   the frames, unless the shuffle is left to Comet. Each of the two begins to read
 */
private[spark] final class CometReader[K, C](
    records: => ShuffleReader[K, C],
    blocks: => Option[EngineReader])
    extends CometShuffleReader[K, C] {
  override def read(): Iterator[Product2[K, C]] = records.read()

  override def readAsRawStream(): InputStream = blocks match {
    case Some(frames) => new RawFrames(frames)
    case None =>
      records match {
        case comets: CometShuffleReader[K, C] => comets.readAsRawStream()
        case other => throw new IllegalStateException(s"${other.getClass} has no frames")
      }
  }
}

/**
 * The frames of all blocks, one after another. Comet counts the rows. Lodestone has compared the
 * checksums, so Comet's decoder trusts the bytes, as in its local shuffles. A decoder that checks
 * them would refuse texts that are no UTF-8, and fail jobs that Comet alone runs.
 */
private[spark] final class RawFrames(blocks: EngineReader) extends InputStream {
  private val one = new Array[Byte](1)
  private var block: Option[EngineBlock] = None

  override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

  override def read(target: Array[Byte], offset: Int, length: Int): Int = {
    var some = readSome(target, offset, length)
    while (some < 0 && blocks.hasNext) {
      block = Some(blocks.next())
      some = readSome(target, offset, length)
    }
    some
  }

  private def readSome(target: Array[Byte], offset: Int, length: Int): Int =
    block.fold(-1)(_.frames().read(target, offset, length))

  override def close(): Unit = block.foreach(_.frames().close())
}
