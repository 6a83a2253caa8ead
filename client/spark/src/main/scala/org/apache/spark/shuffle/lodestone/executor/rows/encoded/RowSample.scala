// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

/**
 * Estimates the size that blocks would have in Spark's format. Adaptive execution chooses by the
 * sizes of blocks how much a task reads, and its settings are made for that format: an encoded
 * block has more rows than one of Spark's with as many bytes, and a hundred times as many if its
 * columns are nearly constant.
 *
 * What is written as rows has a known size. Of row groups that are written as columns, the codec
 * compresses a small part as rows, and this part stands for all such groups of the map task.
 */
private[encoded] final class RowSample(mostBytes: Int) {
  import RowSample._

  private[this] var seen = 0L
  private[this] var plain = 0L
  private[this] var packed = 0L

  /** Returns how many bytes of a row group are to be sampled, which is written as columns. */
  def due(groupBytes: Int): Int = {
    val isDue = plain < FirstBytes + seen / Part
    seen += groupBytes
    if (isDue) math.min(groupBytes, mostBytes) else 0
  }

  def add(plainBytes: Int, packedBytes: Int): Unit = {
    plain += plainBytes
    packed += packedBytes
  }

  /**
   * Returns the estimated size of a block.
   *
   * @param known
   *   compressed bytes of rows that are written as rows
   * @param inColumns
   *   bytes of rows that are written as columns
   */
  def sizeOf(known: Long, inColumns: Long): Long = {
    val estimated =
      if (plain == 0) inColumns.toDouble else inColumns.toDouble * packed / plain
    known + math.ceil(estimated).toLong + StreamBytes
  }
}

private[encoded] object RowSample {

  /** Zstd finds more in more rows. Spark's LZ4 codec has blocks of this size. */
  private val ZstdBytes = 64 << 10
  private val Lz4Bytes = 32 << 10

  def of(codec: RowGroupCodec): RowSample =
    new RowSample(if (codec.id == RowGroupCodec.ZstdId) ZstdBytes else Lz4Bytes)

  /** A task of small blocks compresses several of them. */
  private val FirstBytes = 16L << 10

  /** To compress rows takes up to three times as long as to encode them. */
  private val Part = 256

  /** The head and the end of a stream of a codec. */
  private val StreamBytes = 42L
}
