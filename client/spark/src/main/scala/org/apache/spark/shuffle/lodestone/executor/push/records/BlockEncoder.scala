// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.OutputStream

import org.apache.spark.SparkEnv
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.lodestone.executor.rows.encoded.EncodedRows
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, EncodedBytes}
import org.apache.spark.storage.ShuffleBlockId

/**
 * Encodes serialized records to blocks. One encoder makes all blocks of a map task. It does not
 * encrypt them: [[org.apache.spark.shuffle.lodestone.executor.rows.BlockEncryption]].
 */
private[push] trait BlockEncoder extends RecordSink {

  /** Begins a block, whose bytes go to `out`. Drops what a failed block left behind. */
  def open(block: ShuffleBlockId, out: OutputStream): Unit

  /** Ends the block. The stream stays open. */
  def close(): Unit

  /**
   * Returns the sizes that Spark gets for blocks of these lengths, by partition. They decide how
   * much a task reads. They are the sizes of Spark's format, which may be estimated. A size is at
   * least the length: readers take no more memory than they reserve.
   */
  def sizes(lengths: Array[Long]): Array[Long] = lengths

  /** The bytes of all blocks so far, if they are encoded in a format of our own. */
  def encoded: Option[EncodedBytes] = None

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
      numPartitions: Int,
      env: SparkEnv,
      mostBytes: Int = Int.MaxValue): BlockEncoder = format match {
    case BlockFormat.SparkStream => FrameEncoder(env.conf, env.serializerManager)
    case BlockFormat.EncodedRows =>
      val rows = new EncodedRows.Writer(env.conf, serializer.newInstance(), mostBytes)
      new RowsEncoder(rows, numPartitions)
    case BlockFormat.EngineFrames(engine) =>
      throw new IllegalStateException(s"only the engine itself writes $engine")
  }
}

/** Encodes rows of SQL by column. */
private final class RowsEncoder(rows: EncodedRows.Writer, numPartitions: Int)
    extends BlockEncoder {

  // By partition, in all blocks, segments and spills so far.
  private val sparksBytes = new Array[Double](numPartitions)
  private var partition = 0

  override def open(block: ShuffleBlockId, out: OutputStream): Unit = {
    partition = block.reduceId
    rows.open(out)
  }

  override def records(base: AnyRef, offset: Long, length: Int): Unit =
    rows.add(base, offset, length)

  override def close(): Unit = {
    rows.close()
    sparksBytes(partition) += rows.sparksBytes
  }

  override def sizes(lengths: Array[Long]): Array[Long] = Array.tabulate(numPartitions) { i =>
    if (lengths(i) == 0) 0
    else math.max(lengths(i), math.ceil(sparksBytes(i)).toLong + EncodedRows.SparksStreamBytes)
  }

  override def encoded: Option[EncodedBytes] = Some(rows.bytes)

  override def abandon(): Unit = rows.free()
}
