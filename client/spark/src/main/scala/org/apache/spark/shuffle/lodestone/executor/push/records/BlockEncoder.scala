// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.OutputStream

import org.apache.spark.SparkEnv
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.lodestone.executor.rows.encoded.EncodedRows
import org.apache.spark.shuffle.lodestone.plan.BlockFormat
import org.apache.spark.storage.ShuffleBlockId

/** Encodes serialized records to blocks. One encoder makes all blocks of a map task. */
private[push] trait BlockEncoder extends RecordSink {

  /** Begins a block, whose bytes go to `out`. Drops what a failed block left behind. */
  def open(block: ShuffleBlockId, out: OutputStream): Unit

  /** Ends the block. The stream stays open. */
  def close(): Unit

  /** Gives back memory that a codec may hold. The encoder is not used again. */
  def abandon(): Unit
}

private[push] object BlockEncoder {

  /**
   * @param mostBytes
   *   so many bytes of records are encoded together
   */
  def apply(
      format: BlockFormat,
      serializer: Serializer,
      env: SparkEnv,
      mostBytes: Int = Int.MaxValue): BlockEncoder = format match {
    case BlockFormat.SparkStream => FrameEncoder(env.conf, env.serializerManager)
    case BlockFormat.EncodedRows =>
      new RowsEncoder(new EncodedRows.Writer(env.conf, serializer.newInstance(), mostBytes))
  }
}

/** Encodes rows of SQL by column. */
private final class RowsEncoder(rows: EncodedRows.Writer) extends BlockEncoder {
  override def open(block: ShuffleBlockId, out: OutputStream): Unit = rows.open(out)

  override def records(base: AnyRef, offset: Long, length: Int): Unit =
    rows.add(base, offset, length)

  override def close(): Unit = rows.close()
  override def abandon(): Unit = rows.free()
}
