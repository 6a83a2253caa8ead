// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

/**
 * The head of a row group, before its compressed bytes. A block is a sequence of row groups, and so
 * are several blocks one behind the other.
 */
private[encoded] object RowGroupHead {

  /**
   * With one byte of a body as many as the head of a block of Spark's LZ4 codec. In fewer bytes
   * this codec would see an empty stream, and no damage.
   */
  val HeadBytes = 20

  /** `LR` */
  val Magic: Short = 0x524c
  val VersionAt = 2
  val Version: Byte = 1

  /** The kind in the high half of the byte, the codec in its low half. */
  val TokenAt = 3
  val FieldsAt = 4
  val PlainBytesAt = 8
  val PackedBytesAt = 12

  /** CRC-32C of the head before it, and of the compressed bytes. */
  val ChecksumAt = 16

  /** Rows as Spark's serializer writes them. */
  val Rows = 1

  /** Rows by column. */
  val Columns = 2

  /** A part of one row that is larger than a row group, with its size before its first part. */
  val Piece = 3
}
