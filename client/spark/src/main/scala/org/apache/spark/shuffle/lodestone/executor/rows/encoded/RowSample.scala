// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

/**
 * Estimates the size that row groups would have in Spark's format. Adaptive execution chooses by
 * the sizes of blocks how much a task reads, and its settings are made for that format: an encoded
 * block has more rows than one of Spark's with as many bytes, and a hundred times as many if its
 * columns are nearly constant.
 *
 * What is written as rows has a known size. Of row groups that are written as columns, the codec
 * compresses a small part as rows. Groups differ: the first partition of a sorted table may have
 * nothing but nulls. So there is a sample for each class of groups, by how many times fewer bytes
 * their columns have than their rows, in powers of two, and it stands for this class only.
 */
private[encoded] final class RowSample(mostBytes: Int) {
  import RowSample._

  // By class.
  private[this] val seen = new Array[Long](Classes)
  private[this] val plain = new Array[Long](Classes)
  private[this] val packed = new Array[Long](Classes)

  private[this] var groupBytes = 0
  private[this] var classOfGroup = 0

  /**
   * Begins with a row group that is written as columns.
   *
   * @return
   *   how many bytes of its rows are to be sampled
   */
  def due(rowBytes: Int, columnBytes: Int): Int = {
    groupBytes = rowBytes
    classOfGroup = classOf(rowBytes, columnBytes)
    val isDue = plain(classOfGroup) < FirstBytes + seen(classOfGroup) / Part
    seen(classOfGroup) += rowBytes
    if (isDue) math.min(rowBytes, mostBytes) else 0
  }

  /** Adds the sample of the group. */
  def add(plainBytes: Int, packedBytes: Int): Unit = {
    plain(classOfGroup) += plainBytes
    packed(classOfGroup) += packedBytes
  }

  /** The estimated bytes of the group in Spark's format. */
  def sizeOfGroup: Double = groupBytes.toDouble * packed(classOfGroup) / plain(classOfGroup)
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

  /** As many as there are powers of two in the bytes of a row group. */
  private val Classes = 32 - Integer.numberOfLeadingZeros(RowGroup.MostBytes)

  private def classOf(rowBytes: Int, columnBytes: Int): Int =
    math.min(Classes - 1, 31 - Integer.numberOfLeadingZeros(math.max(1, rowBytes / columnBytes)))
}
